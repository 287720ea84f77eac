// Completion queues: a ring that queue pairs push into and a program polls.

package transport

import (
	"sync"
	"syscall"

	"github.com/rawverbs/rawverbs/verbs"
)

// CQ is a completion queue.
type CQ struct {
	User any // the owner's own

	engine *Engine
	notify func()

	mu      sync.Mutex
	ring    []verbs.WC
	first   int // the oldest
	count   int
	armed   arming
	overrun bool
}

type arming uint8

const (
	unarmed arming = iota
	armedSolicited
	armedAny
)

// CreateCQ makes a queue of depth completions. notify is called once for each
// Arm, when a completion comes, with locks held: it must not block nor call the
// engine. It may be nil. EINVAL unless depth is 1 to MaxCQE.
func (e *Engine) CreateCQ(depth int, notify func()) (*CQ, error) {
	if depth < 1 || depth > MaxCQE {
		return nil, syscall.EINVAL
	}
	return &CQ{engine: e, notify: notify, ring: make([]verbs.WC, depth)}, nil
}

// Depth is the completions there is room for.
func (cq *CQ) Depth() int { return len(cq.ring) }

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

// Arm asks for one call of notify, at the next completion, or at the next that
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
	at := cq.first + cq.count
	if at >= len(cq.ring) {
		at -= len(cq.ring)
	}
	cq.ring[at] = *wc
	cq.count++
	if cq.armed == armedAny || cq.armed == armedSolicited && (solicited || wc.Status != verbs.WCSuccess) {
		cq.armed = unarmed
		if cq.notify != nil {
			cq.notify()
		}
	}
	return true
}
