// Outlets: the sockets that packets leave from. A packet counts as sent when its socket has taken it. While a socket has
// no room, the packets that it did not take wait, and these rules hold:
//
//  1. The caller of Transmit keeps a copy of them, marks their bursts (Outbox.Wait), and fills the outlet (Fill).
//  2. The queue pairs of these bursts stay held, as by an Outbox. So nothing is built twice, and packets stay in order. Other
//     queue pairs that send from the outlet are held before they build anything. Those of other outlets go on.
//  3. No timer runs for packets that wait here. If the queue pair's oldest packet was taken, its ACK timeout runs and
//     counts, but nothing is sent again.
//  4. When the socket has taken everything, the caller calls Drained. The queue pairs go on, and their timers start.
//
// A queue pair that ends meanwhile leaves its packets here. The peer drops them.

package transport

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Outlet is a socket. The zero Outlet has room.
type Outlet struct {
	full atomic.Bool

	mu   sync.Mutex // taken after a queue pair's; the ready list's comes after it
	held []*QP      // until there is room
}

// Fill notes that packets wait for room.
func (x *Outlet) Fill() { x.full.Store(true) }

// Full reports whether packets wait for room. x may be nil.
func (x *Outlet) Full() bool { return x != nil && x.full.Load() }

// hold keeps qp held until there is room. It returns false if there is room now.
func (x *Outlet) hold(qp *QP) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.full.Load() {
		x.held = append(x.held, qp)
	}
	return x.full.Load()
}

// Drained notes that the socket has taken all packets that waited. Transmit must be called afterwards.
func (e *Engine) Drained(now time.Duration, x *Outlet) {
	x.mu.Lock()
	held := x.held
	x.held = nil
	x.full.Store(false)
	x.mu.Unlock()
	for _, qp := range held {
		qp.mu.Lock()
		qp.taken(now)
		qp.unlock()
		e.ready.release(qp, true)
	}
}

// part is what a queue pair has in a burst.
type part struct {
	qp    *QP
	burst int
	from  int64 // the first of the requester's packets; allTaken: none
}

// part returns what the last fill put into a burst. The next packet's number was first before.
func (qp *QP) part(burst int, first int64) part {
	if qp.req.nxt <= first {
		first = allTaken
	}
	return part{qp, burst, first}
}

// allTaken is the number of the first packet that waits for room, if none does.
const allTaken = math.MaxInt64

// Wait notes that packets of burst i, which the last Transmit returned, wait for room in their outlet.
func (o *Outbox) Wait(i int) { o.bursts[i].waits, o.waits = true, true }

// waiting returns the outlet for which packets of qp wait, and the first of them that is the requester's.
func (o *Outbox) waiting(qp *QP) (x *Outlet, from int64) {
	from = allTaken
	for i := range o.parts {
		if p := &o.parts[i]; p.qp == qp && o.bursts[p.burst].waits {
			x, from = o.bursts[p.burst].Path.Outlet, min(from, p.from)
		}
	}
	return x, from
}

// release ends the hold of an outbox. If packets of qp wait for room, or it has built none for lack of room, its
// outlet holds it now.
func (o *Outbox) release(h *heldQP) {
	x, from := h.qp.stopped, int64(allTaken)
	if o.waits {
		if at, first := o.waiting(h.qp); at != nil {
			x, from = at, first
		}
	}
	if x == nil || !h.qp.holdAt(x, from) {
		h.qp.engine.ready.release(h.qp, h.more || x != nil)
	}
}

// holdAt makes an outlet hold qp, whose packets from a number on wait there. It returns false if there is room.
func (qp *QP) holdAt(x *Outlet, from int64) bool {
	qp.mu.Lock()
	defer qp.unlock()
	if !x.hold(qp) {
		return false
	}
	if from != allTaken {
		qp.req.untaken, qp.req.timed = from, nowhere // the wait here is no part of a round trip
	}
	return true
}

// taken notes that the socket has taken all packets of qp.
func (qp *QP) taken(now time.Duration) {
	r, from := &qp.req, qp.req.untaken
	r.untaken = allTaken
	if from == allTaken || r.una >= r.nxt || r.waiting || !qp.canSend() {
		return
	}
	qp.setTailProbe(now)
	if r.una >= from || r.deadline == never {
		qp.setDeadline(now)
	}
}

// outlet returns where qp sends from next; nil if there is none, or if it has no limit.
func (qp *QP) outlet() *Outlet {
	path, r := qp.path, &qp.req
	if path == nil && r.cur != r.tail {
		path = r.wqe(r.cur).path
	}
	if path == nil {
		return nil
	}
	return path.Outlet
}
