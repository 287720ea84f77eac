// Sending: choosing queue pairs in turn, and laying out their packets back to back.
//
//  1. A call that gives a queue pair something to send puts it on the ready list.
//  2. Transmit takes queue pairs from the list in turn. Each fills one burst, or, if its quantum on its
//     route lasts longer, a few: the peer acknowledges consecutive packets of a queue pair together.
//  3. The Outbox holds these queue pairs until its next Transmit. Otherwise another goroutine
//     could send later packets of a queue pair first.
//
// The ready list has its own lock, which is taken after a queue pair's.

package transport

import (
	"slices"
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// Burst is a run of packets to one peer, back to back in Data. All packets are Segment bytes long,
// except the last, which may be shorter: the layout of UDP segmentation offload. Packets of several
// queue pairs share a burst if they are of one size, such as ACKs, and of one shard. The link writes the ICRC
// into the last four bytes of each packet.
type Burst struct {
	Path    *Path
	Data    []byte
	Segment int
	shard   int  // see Path.Shards
	waits   bool // see Outbox.Wait
}

// Packets returns the number of packets in the burst.
func (b *Burst) Packets() int { return (len(b.Data) + b.Segment - 1) / b.Segment }

// Outbox is a buffer that Transmit fills. Only one goroutine may use it.
type Outbox struct {
	buf         []byte
	used        int
	bursts      []Burst
	maxSegments int
	held        []heldQP
	parts       []part // of bursts
	waits       bool   // a burst does
}

type heldQP struct {
	qp   *QP
	more bool
}

// maxBurst is the longest UDP payload in an IPv4 packet of 65535 bytes.
const maxBurst = 65535 - 20 - 8

// NewOutbox returns an Outbox that uses buf, which must hold at least packet.MaxPacket bytes.
// One Transmit fills it with at most bursts bursts, each of at most segments packets.
func NewOutbox(buf []byte, bursts, segments int) *Outbox {
	return &Outbox{buf: buf, bursts: make([]Burst, 0, bursts), maxSegments: segments, held: make([]heldQP, 0, bursts)}
}

// Release releases the queue pairs that o holds. A caller that stops before Transmit returns no
// bursts must call it. A Transmit with any Outbox must follow, because the released queue pairs
// may have more to send. Queue pairs whose packets wait for room stay held (Outbox.Wait).
func (e *Engine) Release(o *Outbox) {
	for i := range o.held {
		h := &o.held[i]
		if h.qp.answering.Load() {
			h.qp.answering.Store(false)
		}
		o.release(h)
		*h = heldQP{}
	}
	clear(o.bursts)
	clear(o.parts)
	o.held, o.bursts, o.parts, o.used, o.waits = o.held[:0], o.bursts[:0], o.parts[:0], 0, false
}

// Transmit fills o with the packets that are ready, and returns them as bursts. The bursts are
// valid until the next Transmit or Release with o. The caller repeats Transmit until it returns
// no bursts. Only then are all queue pairs free for other goroutines.
func (e *Engine) Transmit(now time.Duration, o *Outbox) []Burst {
	e.Release(o)
	for o.hasRoom() {
		qp := e.ready.take()
		if qp == nil {
			break
		}
		before := o.used
		more, goesOn := qp.fill(now, o)
		for goesOn && o.hasRoom() {
			more, goesOn = qp.fill(now, o)
		}
		if o.used == before {
			// Release it at once: while it was held, another goroutine may have given it work
			// and may have found nothing to transmit.
			o.release(&heldQP{qp, more})
			continue
		}
		o.held = append(o.held, heldQP{qp, more})
	}
	// No other queue pair waits, so those with more to send fill further bursts.
	for again := true; again && o.hasRoom(); {
		again = false
		for i := range o.held {
			if h := &o.held[i]; h.more && o.hasRoom() {
				h.more, _ = h.qp.fill(now, o)
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
	return len(o.bursts) < cap(o.bursts) && len(o.held) < cap(o.held) && len(o.buf)-o.used >= packet.MaxPacket
}

// add appends the n bytes behind the last burst, as a burst of their own or as part of the last one.
func (o *Outbox) add(path *Path, n, segment, shard int) {
	from := o.used
	o.used += n
	if last := len(o.bursts) - 1; last >= 0 {
		b := &o.bursts[last]
		whole := len(b.Data) + n
		if b.Segment == segment && b.shard == shard && len(b.Data)%segment == 0 && whole <= min(maxBurst, o.maxSegments*segment) && b.Path.same(path) {
			b.Data = o.buf[from-len(b.Data) : o.used : o.used]
			return
		}
	}
	o.bursts = append(o.bursts, Burst{Path: path, Data: o.buf[from:o.used:o.used], Segment: segment, shard: shard})
}

// fill adds packets of qp for one burst to o. more is true if qp may have more to send, and goesOn if it
// should do so before others.
func (qp *QP) fill(now time.Duration, o *Outbox) (more, goesOn bool) {
	qp.mu.Lock()
	defer qp.unlock()
	qp.paced.asked = false
	if qp.stopped = nil; qp.outlet().Full() {
		qp.stopped = qp.outlet()
		qp.wake, qp.inLine = false, nil
		qp.endQuanta()
		return false, false
	}
	room := o.buf[o.used:min(len(o.buf), o.used+maxBurst)]
	first := qp.req.nxt
	var path *Path
	n, segment, shard, answers := 0, 0, 0, false
	qp.inLine = nil
	for packets := 0; packets < o.maxSegments; {
		if run, size, responses := qp.buildRun(room[n:], segment, o.maxSegments-packets, now); run > 0 {
			if n == 0 {
				path, segment, shard = qp.path, size, qp.shardOf(&outgoing{path: qp.path})
			}
			n, packets, answers = n+run*size, packets+run, answers || responses
			more = packets == o.maxSegments
			continue
		}
		next, ok := qp.next(now, segment, o.maxSegments-packets, len(room)-n)
		if !ok {
			break
		}
		size := next.size()
		to := qp.shardOf(&next)
		if n > 0 && (size > segment || next.path != path || to != shard) || n+size > len(room) {
			more = true
			break
		}
		if !qp.build(room[n:n+size], &next, now) {
			continue
		}
		if n == 0 {
			path, segment, shard = next.path, size, to
		}
		n, packets, answers = n+size, packets+1, answers || next.answer
		if size < segment || packets == o.maxSegments {
			more = true
			break
		}
	}
	if n > 0 {
		o.add(path, n, segment, shard)
		o.parts = append(o.parts, qp.part(len(o.bursts)-1, first))
		qp.requestsTurn = answers && qp.resp.due > 0
	}
	if answers {
		qp.answering.Store(true)
	}
	qp.wake = false // the result more replaces it
	if !more {
		qp.endQuanta()
	}
	qp.settle() // others may leave the line
	return more, more && qp.hasQuantum()
}

// shardOf returns the shard of the queue pair that the next packet is for.
func (qp *QP) shardOf(next *outgoing) int {
	if next.path.Shards < 2 {
		return 0
	}
	to := qp.attr.DestQPN
	switch {
	case next.cnp:
		to = next.cnpTo
	case qp.kind == verbs.UD:
		to = qp.req.wqe(qp.req.cur).wr.RemoteQPN
	}
	return int(to % uint32(next.path.Shards))
}

// readyList is the queue pairs with something to send, in the order of their turns.
type readyList struct {
	mu          sync.Mutex
	first, last *QP
	held        []*QP // by outboxes
}

// readyState is a queue pair's entry in the list, guarded by the list's lock.
type readyState struct {
	next   *QP
	listed bool
	held   bool // by an outbox
	at     int  // index among the held
	again  bool // it got something to send while it was held
}

// add appends qp to the list. If an Outbox holds qp, release will append it.
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

// take removes the first queue pair and marks it held; nil if the list is empty.
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
	qp.ready = readyState{held: true, at: len(l.held)}
	l.held = append(l.held, qp)
	return qp
}

// all returns the queue pairs in the list, and those that are held.
func (l *readyList) all() []*QP {
	l.mu.Lock()
	defer l.mu.Unlock()
	qps := slices.Clone(l.held)
	for qp := l.first; qp != nil; qp = qp.ready.next {
		qps = append(qps, qp)
	}
	return qps
}

// release ends a hold. If qp has more to send, or got work meanwhile, it is appended again.
func (l *readyList) release(qp *QP, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	more = more || qp.ready.again
	last := len(l.held) - 1
	l.held[qp.ready.at] = l.held[last]
	l.held[qp.ready.at].ready.at = qp.ready.at
	l.held[last] = nil
	l.held = l.held[:last]
	qp.ready = readyState{}
	if more {
		l.append(qp)
	}
}
