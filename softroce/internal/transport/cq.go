// Completion queues: rings that queue pairs push completions into and a program polls.
//
// A CQ's lock is taken after a queue pair's. Notify runs under the CQ's lock and, for most
// completions, under the queue pair's.
//
// The ring may lie in memory that another program polls without this lock (MoveTo). So the side
// that polls writes only Head, and this side writes only Tail.

package transport

import (
	"math/bits"
	"sync"
	"sync/atomic"
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

// Ring is the memory of a completion queue. Head and Tail count completions, modulo 2³²: the
// completions from *Head to *Tail, at these numbers modulo the length, are in the queue.
type Ring struct {
	WCs    []verbs.WC // the length is a power of two
	Stamps []int64    // times of the completions; as long as WCs, or nil if times are not kept
	Head   *uint32    // the next completion to poll; written by the polling side
	Tail   *uint32    // the next completion to push; written by the device
}

// RingLength returns the length of a Ring for depth completions.
func RingLength(depth int) int { return 1 << bits.Len(uint(depth-1)) }

// CQ is a completion queue.
type CQ struct {
	User any // free for the caller's use

	engine *Engine
	init   CQInit

	mu      sync.Mutex
	ring    Ring
	depth   int
	armed   arming
	overrun bool
	pushed  atomic.Uint32

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

// CreateCQ returns a completion queue. It returns EINVAL unless the depth is 1 to MaxCQE, and ENOMEM if
// there are MaxCQ.
func (e *Engine) CreateCQ(init CQInit) (*CQ, error) {
	cq := &CQ{engine: e, init: init, ring: Ring{Head: new(uint32), Tail: new(uint32)}}
	if err := cq.Resize(init.Depth); err != nil {
		return nil, err
	}
	if err := e.openCQs.add(MaxCQ); err != nil {
		return nil, err
	}
	return cq, nil
}

// Close must be called once.
func (cq *CQ) Close() error {
	cq.engine.openCQs.drop()
	return nil
}

// Resize changes the depth and keeps the completions. It returns EINVAL unless depth is 1 to
// MaxCQE and at least the number of completions in the queue.
func (cq *CQ) Resize(depth int) error {
	if depth < 1 || depth > MaxCQE {
		return syscall.EINVAL
	}
	to := Ring{WCs: make([]verbs.WC, RingLength(depth)), Head: new(uint32), Tail: new(uint32)}
	if cq.init.Stamp != nil {
		to.Stamps = make([]int64, len(to.WCs))
	}
	return cq.MoveTo(to, depth)
}

// MoveTo makes the queue use another ring, and moves the completions there. It returns EINVAL
// unless the ring has RingLength(depth) entries and the completions fit. Head and Tail may be those
// of the present ring. Nothing may poll meanwhile without the queue's lock.
func (cq *CQ) MoveTo(to Ring, depth int) error {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	head, count := cq.waitingCompletions()
	if len(to.WCs) != RingLength(depth) || int(count) > depth {
		return syscall.EINVAL
	}
	for i := range count {
		from := cq.ring.place(head + i)
		to.WCs[i] = cq.ring.WCs[from]
		if to.Stamps != nil && cq.ring.Stamps != nil {
			to.Stamps[i] = cq.ring.Stamps[from]
		}
	}
	*to.Head = 0
	atomic.StoreUint32(to.Tail, count)
	cq.ring, cq.depth = to, depth
	return nil
}

// place returns the index of the completion with a number.
func (r *Ring) place(number uint32) uint32 { return number & uint32(len(r.WCs)-1) }

// waitingCompletions returns the number of the oldest completion in the queue, and how many there
// are.
func (cq *CQ) waitingCompletions() (head, count uint32) {
	head = atomic.LoadUint32(cq.ring.Head)
	return head, *cq.ring.Tail - head
}

// Pushed returns how many completions the queue has got, modulo 2³². It takes no lock.
func (cq *CQ) Pushed() uint32 { return cq.pushed.Load() }

// Depth returns the number of completions that fit.
func (cq *CQ) Depth() int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.depth
}

// Poll moves up to len(wcs) completions into wcs, oldest first, and returns their number.
func (cq *CQ) Poll(wcs []verbs.WC) int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	head, count := cq.waitingCompletions()
	n := min(len(wcs), int(count))
	if n == 0 {
		return 0
	}
	first := cq.ring.place(head)
	k := copy(wcs[:n], cq.ring.WCs[first:])
	copy(wcs[k:n], cq.ring.WCs)
	atomic.StoreUint32(cq.ring.Head, head+uint32(n))
	return n
}

// PollEx is like Poll, but with the completions' times, if they are kept.
func (cq *CQ) PollEx(wcs []verbs.WCEx) int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	head, count := cq.waitingCompletions()
	n := min(len(wcs), int(count))
	for i := range wcs[:n] {
		at := cq.ring.place(head + uint32(i))
		wcs[i] = verbs.WCEx{WC: cq.ring.WCs[at]}
		if cq.ring.Stamps != nil {
			wcs[i].Timestamp = uint64(cq.ring.Stamps[at])
		}
	}
	atomic.StoreUint32(cq.ring.Head, head+uint32(n))
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
	tail := *cq.ring.Tail
	if _, count := cq.waitingCompletions(); int(count) >= cq.depth {
		if !cq.overrun {
			cq.overrun = true
			cq.engine.cfg.Event(Event{Type: verbs.EventCQErr, CQ: cq})
		}
		return false
	}
	at := cq.ring.place(tail)
	cq.ring.WCs[at] = *wc
	if cq.ring.Stamps != nil {
		cq.ring.Stamps[at] = cq.init.Stamp()
	}
	atomic.StoreUint32(cq.ring.Tail, tail+1)
	cq.pushed.Add(1)
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

// SetNotify replaces CQInit.Notify.
func (cq *CQ) SetNotify(notify func()) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	cq.init.Notify = notify
}

// notify disarms the queue and calls Notify.
func (cq *CQ) notify() {
	cq.armed, cq.waiting = unarmed, 0
	if cq.init.Notify != nil {
		cq.init.Notify()
	}
}
