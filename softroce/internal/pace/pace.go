// Package pace limits the rate of packets that nobody acknowledges: those of UC and UD. Their only
// sign of congestion is the CNP, with which a receiver reports packets that a switch has marked.
// There is no limit until the first CNP. The equations are those of DCQCN (Zhu et al., Congestion
// Control for Large-Scale RDMA Deployments, SIGCOMM 2015); docs/design/congestion.md has them.
//
// The package has no clock. Every now is the time since any fixed moment.
package pace

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// interval is the time over which the rate is measured that the first CNP finds.
	interval = time.Millisecond
	// leastElapsed is the shortest time over which a rate is measured.
	leastElapsed = 50 * time.Microsecond
	// cutPause is the shortest time between two cuts: receivers send a CNP per 50 µs and queue pair.
	cutPause = 50 * time.Microsecond
	// period is the time between two steps of the recovery.
	period = 55 * time.Microsecond
	// memory is the weight of one period in the share of periods with CNPs.
	memory = 1.0 / 32
	// fastSteps is the number of steps after a cut that go halfway to the rate before the cut.
	// After them, that rate grows.
	fastSteps = 5
	// growth is the growth of that rate, in bytes per second and second: a quarter of the growth of an
	// RC window where switches mark packets (4096 bytes per 80 µs, each 80 µs).
	growth = 4096 / (80e-6 * 80e-6) / 4
	// least is the lowest rate, in bytes per second.
	least = 1.25e6
	// slack is how late a sender may be and still send what it missed: timers are late.
	slack = time.Millisecond
	// quantum is the time for which a sender that has waited may send without waiting again. With a longer
	// one, senders to one receiver take unequal shares (make simulate RUN=incast-u).
	quantum = 20 * time.Microsecond
	// mostBytes is the most that a sender that has waited may send.
	mostBytes = 64 << 10
	// unusedFor is how long there was no CNP and nobody waited, after which the limit is forgotten.
	unusedFor = 10 * time.Millisecond
)

// Rate is the rate towards one address. The zero value has no limit. Several goroutines may use it.
type Rate struct {
	limited atomic.Bool
	sent    atomic.Int64 // bytes
	begun   atomic.Int64 // time at which the current interval began

	mu                    sync.Mutex
	sentBefore, sentUntil int64 // bytes sent until the previous interval began, and the current one
	previous              time.Duration

	current, target float64 // bytes per second
	marks           float64 // share of the periods with CNPs
	steps           int     // of the recovery, since the last cut
	stepped         time.Duration
	marked          bool // a CNP came since the last step
	cutAt           time.Duration
	used            time.Duration // when a CNP came or somebody waited last
	free            time.Duration // when all bytes that were allowed have left at the current rate
}

// Limited reports whether the rate has a limit now. It is cheap.
func (r *Rate) Limited() bool { return r.limited.Load() }

// Sent notes that n bytes were sent.
func (r *Rate) Sent(now time.Duration, n int) {
	total := r.sent.Add(int64(n))
	if now-time.Duration(r.begun.Load()) < interval {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	begun := time.Duration(r.begun.Load())
	switch elapsed := now - begun; {
	case elapsed < interval: // another goroutine was faster
		return
	case elapsed < 2*interval:
		r.previous, r.sentBefore = begun, r.sentUntil
	default: // nothing was sent for a while
		r.previous, r.sentBefore = now, total-int64(n)
	}
	r.sentUntil = total - int64(n)
	r.begun.Store(int64(now))
}

// measured returns the bytes per second since the previous interval began.
func (r *Rate) measured(now time.Duration) float64 {
	return float64(r.sent.Load()-r.sentBefore) / max(now-r.previous, leastElapsed).Seconds()
}

// Congested notes that a CNP came.
func (r *Rate) Congested(now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step(now)
	if !r.limited.Load() {
		r.current, r.marks, r.stepped, r.free = max(r.measured(now), least), 1, now, now
		r.limited.Store(true)
	} else if now-r.cutAt < cutPause {
		return
	}
	r.marked, r.steps, r.cutAt, r.used = true, 0, now, now
	r.target = r.current
	r.current = max(r.current*(1-r.marks/2), least)
}

// step makes the steps of the recovery that are due. It forgets a limit that nobody needs.
func (r *Rate) step(now time.Duration) {
	if !r.limited.Load() {
		return
	}
	if now-r.used > unusedFor {
		r.limited.Store(false)
		return
	}
	for ; now-r.stepped >= period; r.stepped += period {
		if r.marked {
			r.marks += (1 - r.marks) * memory
		} else {
			r.marks *= 1 - memory
		}
		r.marked = false
		if r.steps++; r.steps > fastSteps {
			r.target += growth * period.Seconds()
		}
		r.current = (r.current + r.target) / 2
	}
}

// Reserve asks for n bytes. It returns when they may leave, and how many bytes may leave then. If the
// caller must wait, these are more than n, so that few timers are needed. Callers that wait get their
// turns in the order in which they asked.
func (r *Rate) Reserve(now time.Duration, n int) (at time.Duration, allowed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step(now)
	if !r.limited.Load() {
		return now, n
	}
	r.free = max(r.free, now-slack)
	if at = r.free; at > now {
		n = max(n, min(int(r.current*quantum.Seconds()), mostBytes))
		r.used = now
	}
	r.free += r.time(n)
	return at, n
}

// Return gives back n bytes that Reserve allowed and that were not sent.
func (r *Rate) Return(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current > 0 {
		r.free -= r.time(n)
	}
}

// time returns how long n bytes take at the current rate.
func (r *Rate) time(n int) time.Duration {
	return time.Duration(math.Ceil(float64(n) / r.current * float64(time.Second)))
}
