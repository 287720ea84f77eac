// Polling before a sleep. On one host the peer's packets often come after a few microseconds. To sleep and to be woken takes
// several times as long, and more processor time than polling. So a goroutine that waits for packets polls for a moment
// before it sleeps, as long as that has been worth it. In a stream nobody waits for a single packet, and packets that come
// during a sleep are received together, so nobody polls.

package softroce

import (
	"runtime"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
)

// pollFor is how long a goroutine polls: on most hosts somewhat longer than a sleep would take.
const pollFor = 50 * time.Microsecond

// mayPoll reports whether the process has more than one processor. With one, a thread that polls keeps others from it.
func mayPoll() bool { return min(runtime.GOMAXPROCS(0), runtime.NumCPU()) > 1 }

// patience decides whether a wait begins with polling. The more often that was in vain, the shorter is the part of the time in
// which waits begin with it. If the peer needs the same processor, polling is always in vain.
//
// Two ends on one host must poll at the same time. If only one polls, the other may need longer to wake than the first one
// polls. So the clock decides: waits begin with polling in one of every two slots, of every four, and so on.
type patience struct {
	vain int // twice the number of polls in vain, less the number of others; 0 to mostVain
}

const (
	// vainStep is how much more in vain halves the number of slots.
	vainStep = 16
	mostVain = 10 * vainStep
	// slotBits is the length of a slot, about a millisecond, as a power of two in nanoseconds.
	slotBits = 20
)

// polls reports whether a wait that begins now begins with polling.
func (p *patience) polls(now time.Time) bool {
	return now.UnixNano()>>slotBits&(1<<(p.vain/vainStep)-1) == 0
}

// polled notes whether packets came.
func (p *patience) polled(came bool) {
	if came {
		p.vain = max(p.vain-1, 0)
	} else {
		p.vain = min(p.vain+2, mostVain)
	}
}

// await waits for packets.
func (r *receiver) await() error {
	now := time.Now()
	if !r.pollsFirst || r.d.traffic.stream.Load() || !r.patience.polls(now) {
		return r.link.Receive(r.in)
	}
	limit := now.Add(pollFor)
	err := r.pollUntil(limit)
	if !errors.Is(err, link.ErrInterrupted) {
		r.patience.polled(true)
		return err
	}
	if time.Now().After(limit) { // otherwise it was interrupted, which says nothing
		r.patience.polled(false)
	}
	return r.link.Receive(r.in)
}

// pollUntil polls for packets until some time. It returns ErrInterrupted if none have come, or if another goroutine wants this
// one to stop.
func (r *receiver) pollUntil(limit time.Time) error {
	for polls := 1; ; polls++ {
		err := r.try(r.in)
		if !errors.Is(err, link.ErrInterrupted) || link.Interrupted(r.link) || time.Now().After(limit) {
			return err
		}
		if polls == 1 { // a goroutine that was just woken may run first; to yield again costs more than the poll
			runtime.Gosched()
		}
	}
}
