// System calls past Go's scheduler do not wake the runtime's monitor thread, which must look now and
// then while packets move (docs/design/waiting.md). It sleeps until the next timer at most: this one.

package link

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// monitorTick is how long the monitor thread may sleep while packets move.
const monitorTick = 10 * time.Millisecond

// monitor is the timer. There is one, because a process has one monitor thread.
var monitor = newMonitor()

type monitorTimer struct {
	timer           *time.Timer
	running, needed atomic.Bool // needed: there was a raw call since the last ring
}

// newMonitor returns a timer that stands still.
func newMonitor() *monitorTimer {
	m := new(monitorTimer)
	m.timer = time.AfterFunc(time.Hour, m.ring)
	m.timer.Stop()
	return m
}

// keep makes the monitor thread look every monitorTick for a while. Raw calls call it.
func (m *monitorTimer) keep() {
	if !m.needed.Load() {
		m.needed.Store(true)
	}
	if !m.running.Load() && m.running.CompareAndSwap(false, true) {
		m.timer.Reset(monitorTick)
		_, _, _ = unix.Syscall(unix.SYS_GETPID, 0, 0, 0) // wakes the thread, which does not know of the timer
	}
}

// ring stops the timer after a tick without raw calls.
func (m *monitorTimer) ring() {
	if m.needed.Swap(false) {
		m.timer.Reset(monitorTick)
	} else if m.running.Store(false); m.needed.Load() { // since the Swap
		m.keep()
	}
}
