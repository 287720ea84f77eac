// Package pace limits the rate of packets that their sender has no window for: those of UC and UD, and the
// responses of READs. Their only sign of congestion is the CNP, with which a receiver reports packets that a switch has marked.
// There is no limit until the first CNP. The equations are those of DCQCN (Zhu et al., Congestion
// Control for Large-Scale RDMA Deployments, SIGCOMM 2015); docs/design/congestion.md has them.
//
// A sender that must wait gets a turn: a count of bytes. The turn comes when the rate has let as many
// bytes leave. So it comes sooner if the rate recovers, or if others return what they do not send.
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
	// leastPause is the shortest time after which a sender that waits asks again, if its turn does not come sooner.
	leastPause = 100 * time.Microsecond
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

	left     float64 // bytes that the rate has let leave
	leftAt   time.Duration
	reserved float64 // bytes that senders have reserved, and may send when as many have left
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
		r.current, r.marks, r.stepped = max(r.measured(now), least), 1, now
		r.left, r.leftAt = r.reserved, now
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
		r.let(r.stepped + period)
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
	r.let(now)
}

// let lets bytes leave at the current rate until the given time.
func (r *Rate) let(until time.Duration) {
	r.left += r.current * max(until-r.leftAt, 0).Seconds()
	r.leftAt = max(r.leftAt, until)
}

// Turn is a place in the line of those that wait for a Rate.
type Turn float64

// Reserve asks for n bytes. It returns the caller's turn, and how many bytes may leave then. If the caller must
// wait, these are more than n, so that few timers are needed. Turns come in the order in which they were asked for.
func (r *Rate) Reserve(now time.Duration, n int) (turn Turn, allowed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step(now)
	r.reserved = max(r.reserved, r.left-r.current*slack.Seconds())
	turn = Turn(r.reserved)
	if r.waits(turn) {
		n = max(n, min(int(r.current*quantum.Seconds()), mostBytes))
	}
	r.reserved += float64(n)
	return turn, n
}

// When returns the time at which the caller asks again whether its turn has come. The turn has come if that time
// is now. A caller that waits asks several times, because the rate may change meanwhile.
func (r *Rate) When(now time.Duration, turn Turn) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step(now)
	if !r.waits(turn) {
		return now
	}
	r.used = now
	return now + max(r.soonest(turn), min(r.time(float64(turn)-r.left), leastPause), 1)
}

func (r *Rate) waits(turn Turn) bool { return r.limited.Load() && float64(turn) > r.left }

// soonest returns how long the turn takes at least, if no CNP comes: the rate goes to the target at most, and grows.
func (r *Rate) soonest(turn Turn) time.Duration {
	// Of bytes = rate·t + growth·t²/2, the solution for t.
	rate := max(r.current, r.target)
	t := (math.Sqrt(rate*rate+2*growth*(float64(turn)-r.left)) - rate) / growth
	return time.Duration(t * float64(time.Second))
}

// Return gives back n bytes that Reserve allowed and that are not sent. All turns come sooner.
func (r *Rate) Return(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += float64(n)
}

// time returns how long so many bytes take at the current rate.
func (r *Rate) time(bytes float64) time.Duration {
	return time.Duration(math.Ceil(bytes / r.current * float64(time.Second)))
}
