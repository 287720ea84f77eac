package link

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestMonitorTimer checks that the timer runs while there are raw calls, and stops one tick after the last
// tick with a call.
func TestMonitorTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMonitor()
		at := func(sleep time.Duration, running bool, when string) {
			t.Helper()
			time.Sleep(sleep)
			synctest.Wait()
			if m.running.Load() != running {
				t.Fatalf("the timer runs %s: %v, want %v", when, !running, running)
			}
		}
		for range 2 {
			at(2*time.Hour, false, "without calls")
			for range 5 { // the last one during the second tick
				m.keep()
				at(monitorTick*4/10, true, "after a call")
			}
			at(monitorTick*9/10, true, "for a tick more")
			at(monitorTick*2/10, false, "after that")
		}
	})
}
