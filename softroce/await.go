// Polling: when a wait begins with it (patience), and when a goroutine that polls yields (yields). Threads of C have the same
// rules (cabi/shim/wait.c); docs/design/waiting.md has the reasons.

package softroce

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
)

// rarest limits how rare polls in vain and dear yields become, as a power of two.
const rarest = 10

// pollFor is how long a goroutine polls: on most hosts somewhat longer than a sleep would take.
const pollFor = 50 * time.Microsecond

// mayPoll reports whether the process has more than one processor. With one, a thread that polls keeps others from it.
func mayPoll() bool { return min(runtime.GOMAXPROCS(0), runtime.NumCPU()) > 1 }

// patience decides whether a wait begins with polling. The more often that was in vain, the shorter is the part of the time in which
// waits begin with it. If the peer needs the same processor, polling is always in vain.
//
// Two ends on one host must poll at the same time. If only one polls, the other may need longer to wake than the first one
// polls. So the clock decides: waits begin with polling in one of every two slots, of every four, and so on.
type patience struct {
	vain int // vainCost for each poll in vain, less one for each other; 0 to mostVain
}

const (
	vainCost = 2
	// vainStep is the growth of vain that halves the number of slots.
	vainStep = 8
	mostVain = rarest * vainStep
	// slotBits is the length of a slot, about a millisecond, as a power of two in nanoseconds.
	slotBits = 20
)

// poll begins a wait with polling, if that has been worth it lately. It calls try until something has come, or until the
// caller must stop. It reports whether something has come.
func (p *patience) poll(began time.Time, try func() (came, stop bool)) (came bool) {
	if began.UnixNano()>>slotBits&(1<<(p.vain/vainStep)-1) != 0 {
		return false
	}
	for limit := began.Add(pollFor); ; {
		switch came, stop := try(); {
		case came:
			p.vain = max(p.vain-1, 0)
			return true
		case stop: // which says nothing
			return false
		case time.Now().After(limit):
			p.vain = min(p.vain+vainCost, mostVain)
			return false
		}
	}
}

// await waits for packets.
func (r *receiver) await(in *link.Ingress) error {
	defer r.waits.Store(false)
	return r.awaitFrom(time.Now(), in)
}

// awaitFrom is await that begins at some time.
func (r *receiver) awaitFrom(began time.Time, in *link.Ingress) (err error) {
	tries := 0
	try := func() (came, stop bool) {
		if tries++; tries == 2 { // a goroutine that was just woken may run first; to yield again costs more than the poll
			runtime.Gosched()
		}
		err = r.try(in)
		return !errors.Is(err, link.ErrInterrupted), link.Interrupted(r.link)
	}
	came := r.pollsFirst && !r.d.traffic.stream.Load() && r.patience.poll(began, try)
	if !came {
		err = r.link.Receive(in)
	}
	return err
}

const (
	// yieldAfter is the number of calls of DriveOnce in a row that receive nothing, after which it yields. A yield
	// takes as long as such a call, and a packet may come meanwhile.
	yieldAfter = 8
	// dear is how long a yield takes if a program ran that had nothing to do with it. Then the next yields are rarer: each
	// may cost a time slice.
	dear = time.Millisecond
)

// yields decides when a goroutine that polls yields the processor.
type yields struct {
	inVain atomic.Uint32 // calls of DriveOnce in a row that received nothing
	rare   atomic.Uint32 // yields that were dear, less the others; 0 to rarest
}

// after notes whether a call of DriveOnce received something, and yields if it is time.
func (y *yields) after(received bool, yield func()) {
	if received {
		y.inVain.Store(0)
		return
	}
	rare := y.rare.Load()
	if y.inVain.Add(1)%(yieldAfter<<rare) != 0 {
		return
	}
	began := time.Now()
	yield()
	if time.Since(began) > dear {
		y.rare.Store(min(rare+1, rarest))
	} else if rare > 0 {
		y.rare.Store(rare - 1)
	}
}
