// Completion queues: a ring that queue pairs push into and a program polls.

package transport

import (
	"sync"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

// CQInit says what completion queue to make. The functions are called with locks
// held: they must not block nor call the engine.
type CQInit struct {
	Depth  int
	Notify func()              // called once for each Arm, when a completion comes; may be nil
	Stamp  func() int64        // tells the time of a completion, for PollEx; nil: none is kept
	Delay  func(time.Duration) // has Due called after a time, instead of what was asked before; needed by Moderate
}

// CQ is a completion queue.
type CQ struct {
	User any // the owner's own

	engine *Engine
	init   CQInit

	mu      sync.Mutex
	ring    []verbs.WC
	stamps  []int64 // of ring, if they are kept
	first   int     // the oldest
	count   int
	armed   arming
	overrun bool

	hold    int           // Moderate: an event is for so many completions
	period  time.Duration // or for those of such a time
	waiting int           // completions that came since Arm and were held back
}

type arming uint8

const (
	unarmed arming = iota
	armedSolicited
	armedAny
)

// CreateCQ makes a completion queue. EINVAL unless the depth is 1 to MaxCQE.
func (e *Engine) CreateCQ(init CQInit) (*CQ, error) {
	cq := &CQ{engine: e, init: init}
	if err := cq.Resize(init.Depth); err != nil {
		return nil, err
	}
	return cq, nil
}

// Resize makes room for depth completions; those that are there stay. EINVAL unless
// depth is 1 to MaxCQE and no less than they are.
func (cq *CQ) Resize(depth int) error {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if depth < 1 || depth > MaxCQE || depth < cq.count {
		return syscall.EINVAL
	}
	ring := make([]verbs.WC, depth)
	var stamps []int64
	if cq.init.Stamp != nil {
		stamps = make([]int64, depth)
	}
	for i := range cq.count {
		at := cq.place(i)
		ring[i] = cq.ring[at]
		if stamps != nil {
			stamps[i] = cq.stamps[at]
		}
	}
	cq.ring, cq.stamps, cq.first = ring, stamps, 0
	return nil
}

// place is where the completion after i others is, or goes.
func (cq *CQ) place(i int) int {
	at := cq.first + i
	if at >= len(cq.ring) {
		at -= len(cq.ring)
	}
	return at
}

// Depth is the completions there is room for.
func (cq *CQ) Depth() int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return len(cq.ring)
}

// Poll moves up to len(wcs) completions into wcs, oldest first.
func (cq *CQ) Poll(wcs []verbs.WC) int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	n := 0
	for n < len(wcs) && cq.count > 0 {
		k := copy(wcs[n:], cq.ring[cq.first:min(cq.first+cq.count, len(cq.ring))])
		n, cq.count, cq.first = n+k, cq.count-k, cq.first+k
		if cq.first == len(cq.ring) {
			cq.first = 0
		}
	}
	return n
}

// PollEx is Poll with the times of the completions, if they are kept.
func (cq *CQ) PollEx(wcs []verbs.WCEx) int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	n := min(len(wcs), cq.count)
	for i := range wcs[:n] {
		wcs[i] = verbs.WCEx{WC: cq.ring[cq.first]}
		if cq.stamps != nil {
			wcs[i].Timestamp = uint64(cq.stamps[cq.first])
		}
		cq.first = cq.place(1)
	}
	cq.count -= n
	return n
}

// Arm asks for one call of Notify, at the next completion, or at the next that
// is solicited or failed. Completions already there do not count.
func (cq *CQ) Arm(solicitedOnly bool) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if solicitedOnly {
		cq.armed = max(cq.armed, armedSolicited)
	} else {
		cq.armed = armedAny
	}
}

// Moderate has Notify held back until count completions came that call for it, or
// period has passed since the first. Without either, or for a count of 1, each calls
// at once.
func (cq *CQ) Moderate(count int, period time.Duration) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	cq.hold, cq.period = count, period
	if count < 2 || period == 0 {
		cq.hold = 0
	}
	if cq.waiting > 0 {
		cq.tell() // the rule that they waited by is gone
	}
}

// Due is what Delay asks for.
func (cq *CQ) Due() {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.waiting > 0 {
		cq.tell()
	}
}

// push adds a completion. If there is no room it is lost, the first time with an
// event, and false comes back: the queue pair cannot go on.
func (cq *CQ) push(wc *verbs.WC, solicited bool) bool {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.count == len(cq.ring) {
		if !cq.overrun {
			cq.overrun = true
			cq.engine.cfg.Event(Event{Type: verbs.EventCQErr, CQ: cq})
		}
		return false
	}
	at := cq.place(cq.count)
	cq.ring[at] = *wc
	if cq.stamps != nil {
		cq.stamps[at] = cq.init.Stamp()
	}
	cq.count++
	if cq.armed == armedAny || cq.armed == armedSolicited && (solicited || wc.Status != verbs.WCSuccess) {
		cq.call()
	}
	return true
}

// call is for a completion that calls for an event.
func (cq *CQ) call() {
	if cq.waiting++; cq.waiting < cq.hold {
		if cq.waiting == 1 {
			cq.init.Delay(cq.period)
		}
		return
	}
	cq.tell()
}

// tell gives the event that the queue is armed for.
func (cq *CQ) tell() {
	cq.armed, cq.waiting = unarmed, 0
	if cq.init.Notify != nil {
		cq.init.Notify()
	}
}
