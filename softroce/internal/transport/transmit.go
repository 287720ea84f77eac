// Sending: which queue pair has its turn, and its packets laid back to back.
//
//	1. whoever gives a queue pair something to send puts it on the ready list
//	2. Transmit takes queue pairs off it in turn and lets each fill a burst
//	3. they stay held by that Outbox until its next Transmit, so that no other
//	   goroutine can send, and overtake, while the first is still in its socket

package transport

import (
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Burst is a run of packets of one queue pair to one peer, back to back in Data:
// each is Segment bytes long but the last, which may be shorter. That is what
// UDP segmentation offload takes. The last four bytes of each packet are left
// for the link to put the ICRC in.
type Burst struct {
	Path    *Path
	Data    []byte
	Segment int
}

// Packets is how many packets there are in the burst.
func (b *Burst) Packets() int { return (len(b.Data) + b.Segment - 1) / b.Segment }

// Outbox is a buffer that Transmit fills, for one goroutine.
type Outbox struct {
	buf         []byte
	used        int
	bursts      []Burst
	maxSegments int
	held        []heldQP
}

type heldQP struct {
	qp   *QP
	more bool
}

// maxBurst is the longest UDP payload: of an IPv4 packet of 65535 bytes.
const maxBurst = 65535 - 20 - 8

// NewOutbox makes an outbox over buf, which holds packet.MaxPacket bytes or more. A
// Transmit fills it with at most bursts bursts, each of at most segments packets.
func NewOutbox(buf []byte, bursts, segments int) *Outbox {
	return &Outbox{buf: buf, bursts: make([]Burst, 0, bursts), maxSegments: segments, held: make([]heldQP, 0, bursts)}
}

// Release lets go of the queue pairs that o holds, for a caller that stops before
// Transmit had nothing more. They are ready for the next Transmit with any Outbox,
// which must follow.
func (e *Engine) Release(o *Outbox) {
	for i := range o.held {
		h := &o.held[i]
		e.ready.release(h.qp, h.more)
		*h = heldQP{}
	}
	clear(o.bursts)
	o.held, o.bursts, o.used = o.held[:0], o.bursts[:0], 0
}

// Transmit fills o with what there is to send, and returns it as bursts, which
// are good until the next Transmit with o. The caller repeats it until nothing
// comes back: then, and only then, all queue pairs are free for other goroutines.
func (e *Engine) Transmit(now time.Duration, o *Outbox) []Burst {
	e.Release(o)
	for o.hasRoom() {
		qp := e.ready.take()
		if qp == nil {
			break
		}
		before := len(o.bursts)
		more := qp.fill(now, o)
		if len(o.bursts) == before {
			// Let it go at once: others may have given it work while it was held,
			// and looked for that in vain.
			e.ready.release(qp, more)
			continue
		}
		o.held = append(o.held, heldQP{qp, more})
	}
	// Nobody else waits, so those who have more go round again.
	for again := true; again && o.hasRoom(); {
		again = false
		for i := range o.held {
			if h := &o.held[i]; h.more && o.hasRoom() {
				h.more = h.qp.fill(now, o)
				again = again || h.more
			}
		}
	}
	packets := 0
	for i := range o.bursts {
		packets += o.bursts[i].Packets()
	}
	e.counters.add(TxPackets, uint64(packets))
	return o.bursts
}

func (o *Outbox) hasRoom() bool {
	return len(o.bursts) < cap(o.bursts) && len(o.buf)-o.used >= packet.MaxPacket
}

// fill adds one burst of qp to o and says whether there may be more.
func (qp *QP) fill(now time.Duration, o *Outbox) (more bool) {
	qp.mu.Lock()
	defer qp.unlock()
	room := o.buf[o.used:min(len(o.buf), o.used+maxBurst)]
	var b Burst
	n := 0
	for packets := 0; packets < o.maxSegments; {
		next, ok := qp.next(now, n == 0)
		if !ok {
			break
		}
		size := next.size()
		if n > 0 && (size > b.Segment || next.path != b.Path) || n+size > len(room) {
			more = true
			break
		}
		if !qp.build(room[n:n+size], &next, now) {
			continue
		}
		if n == 0 {
			b = Burst{Path: next.path, Segment: size}
		}
		n, packets = n+size, packets+1
		if size < b.Segment || packets == o.maxSegments {
			more = true
			break
		}
	}
	if n > 0 {
		b.Data = room[:n:n]
		o.bursts = append(o.bursts, b)
		o.used += n
	}
	qp.wake = false // more tells it
	return more
}

// readyList is the queue pairs with something to send, in turn.
type readyList struct {
	mu          sync.Mutex
	first, last *QP
}

// readyState is a queue pair's part of the list, under the list's lock.
type readyState struct {
	next   *QP
	listed bool
	held   bool // by an outbox
	again  bool // got something to send while held
}

// add puts qp at the end of the list, or sees to it that it gets there.
func (l *readyList) add(qp *QP) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch r := &qp.ready; {
	case r.held:
		r.again = true
	case !r.listed:
		l.append(qp)
	}
}

func (l *readyList) append(qp *QP) {
	qp.ready.listed = true
	if l.last == nil {
		l.first = qp
	} else {
		l.last.ready.next = qp
	}
	l.last = qp
}

// take gives the next queue pair to a holder; nil if there is none.
func (l *readyList) take() *QP {
	l.mu.Lock()
	defer l.mu.Unlock()
	qp := l.first
	if qp == nil {
		return nil
	}
	if l.first = qp.ready.next; l.first == nil {
		l.last = nil
	}
	qp.ready = readyState{held: true}
	return qp
}

// release ends a hold; with more, or work given meanwhile, qp takes its next turn.
func (l *readyList) release(qp *QP, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	more = more || qp.ready.again
	qp.ready = readyState{}
	if more {
		l.append(qp)
	}
}
