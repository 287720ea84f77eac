// Completion queues: rings that queue pairs push completions into and a program polls.
//
// A CQ's lock is taken after a queue pair's. Notify runs under the CQ's lock and, for most
// completions, under the queue pair's.

package transport

import (
	"sync"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

// CQInit describes a completion queue to create. Its functions run with locks held, so they
// must not block or call the engine.
type CQInit struct {
	Depth  int
	Notify func()              // called once per Arm, when a completion arrives; may be nil
	Stamp  func() int64        // returns the time of a completion, for PollEx; nil: times are not kept
	Delay  func(time.Duration) // schedules one call of Due and replaces an earlier schedule; Moderate needs it
}

// CQ is a completion queue.
type CQ struct {
	User any // free for the caller's use

	engine *Engine
	init   CQInit

	mu      sync.Mutex
	ring    []verbs.WC
	stamps  []int64 // times of ring's completions, if kept
	first   int     // index of the oldest
	count   int
	armed   arming
	overrun bool

	hold    int           // Moderate: call Notify after this many completions …
	period  time.Duration // … or after this time
	waiting int           // completions since Arm that have not called Notify yet
}

type arming uint8

const (
	unarmed arming = iota
	armedSolicited
	armedAny
)

// CreateCQ returns a completion queue. It returns EINVAL unless the depth is 1 to MaxCQE.
func (e *Engine) CreateCQ(init CQInit) (*CQ, error) {
	cq := &CQ{engine: e, init: init}
	if err := cq.Resize(init.Depth); err != nil {
		return nil, err
	}
	return cq, nil
}

// Resize changes the depth and keeps the completions. It returns EINVAL unless depth is 1 to
// MaxCQE and at least the number of completions in the queue.
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

// place returns the index in the ring of the completion that has i older ones.
func (cq *CQ) place(i int) int {
	at := cq.first + i
	if at >= len(cq.ring) {
		at -= len(cq.ring)
	}
	return at
}

// Depth returns the number of completions that fit.
func (cq *CQ) Depth() int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return len(cq.ring)
}

// Poll moves up to len(wcs) completions into wcs, oldest first, and returns their number.
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

// PollEx is like Poll, but with the completions' times, if they are kept.
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

// Arm asks for one call of Notify at the next completion. With solicitedOnly it is the next
// completion that is solicited or failed. Completions already in the queue do not count.
func (cq *CQ) Arm(solicitedOnly bool) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if solicitedOnly {
		cq.armed = max(cq.armed, armedSolicited)
	} else {
		cq.armed = armedAny
	}
}

// Moderate delays Notify until count completions that would call Notify have arrived, or until
// period has passed since the first of them. If count is below 2 or period is 0, Notify is not
// delayed.
func (cq *CQ) Moderate(count int, period time.Duration) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	cq.hold, cq.period = count, period
	if count < 2 || period == 0 {
		cq.hold = 0
	}
	if cq.waiting > 0 {
		cq.notify() // the old count and period no longer hold
	}
}

// Due calls a delayed Notify. Delay schedules it.
func (cq *CQ) Due() {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.waiting > 0 {
		cq.notify()
	}
}

// push adds a completion. If the queue is full, the completion is lost, and push returns false:
// the queue pair must end. The first loss reports CQ_ERR.
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

// call calls Notify, or delays it, for a completion that the queue is armed for.
func (cq *CQ) call() {
	if cq.waiting++; cq.waiting < cq.hold {
		if cq.waiting == 1 {
			cq.init.Delay(cq.period)
		}
		return
	}
	cq.notify()
}

// notify disarms the queue and calls Notify.
func (cq *CQ) notify() {
	cq.armed, cq.waiting = unarmed, 0
	if cq.init.Notify != nil {
		cq.init.Notify()
	}
}
