// Polling before a sleep. On one host the peer's packets often come after a few microseconds. To sleep and to be woken takes
// several times as long, and more processor time than polling. So a goroutine that waits for packets polls for a moment
// before it sleeps, as long as that has been worth it.

package softroce

import (
	"runtime"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
)

const (
	// pollFor is how long a goroutine polls: somewhat longer than a sleep would take.
	pollFor = 50 * time.Microsecond
	// mostVain limits the number of waits without polling, as a power of two.
	mostVain = 10
	// pollsPerYield is the number of polls after which other goroutines may run.
	pollsPerYield = 4
)

// mayPoll reports whether the process has more than one processor. With one, a thread that polls keeps others from it.
func mayPoll() bool { return min(runtime.GOMAXPROCS(0), runtime.NumCPU()) > 1 }

// patience decides whether a wait begins with polling. After each time that it was in vain, twice as many waits go without it. If
// the peer needs the same processor, polling is always in vain.
type patience struct {
	vain int // times in vain, less the others; 0 to mostVain
	skip int // waits to come without polling
}

// polls reports whether this wait begins with polling.
func (p *patience) polls() bool {
	if p.skip > 0 {
		p.skip--
		return false
	}
	return true
}

// polled notes whether packets came.
func (p *patience) polled(came bool) {
	if came {
		p.vain = max(p.vain-1, 0)
		return
	}
	p.vain = min(p.vain+1, mostVain)
	p.skip = 1 << p.vain
}

// await waits for packets.
func (r *receiver) await() error {
	if r.pollsFirst && r.patience.polls() {
		limit := time.Now().Add(pollFor)
		err := r.pollUntil(limit)
		if !errors.Is(err, link.ErrInterrupted) {
			r.patience.polled(true)
			return err
		}
		if time.Now().After(limit) { // otherwise it was interrupted, which says nothing
			r.patience.polled(false)
		}
	}
	return r.p.link.Receive(r.in)
}

// pollUntil polls for packets until some time. It returns ErrInterrupted if none have come, or if another goroutine wants
// this one to stop.
func (r *receiver) pollUntil(limit time.Time) error {
	for polls := 1; ; polls++ {
		err := r.try(r.in)
		if !errors.Is(err, link.ErrInterrupted) || r.asked.Load() > 0 || link.Interrupted(r.p.link) || time.Now().After(limit) {
			return err
		}
		if polls%pollsPerYield == 0 {
			runtime.Gosched()
		}
	}
}
