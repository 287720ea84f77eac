// Routes: what all queue pairs of RC that send to one address share. The packets of all of them cross
// the same links and wait in the same receive buffer, so they share one window.
//
//  1. Each packet that is in flight is charged to the route, as one path MTU (spend). A queue pair
//     that finds no room waits in line (waits).
//  2. Acknowledgements give the room back when the queue pair is unlocked (settle). The queue pairs
//     in line then go on the ready list, in the order in which they came (advance). So the line is
//     fair.
//  3. A packet that leaves less room than a quantum asks for an ACK (fairqueue.go has an exception). So room always comes back.
//  4. The congestion controller (controller.go) grows the window by what is acknowledged, up to Path.Flight. It shrinks
//     it for marks, and for more losses than links have without congestion.
//
// A queue pair that has sent a few tail-loss probes without an answer gives its room back, so that a silent
// peer cannot stop the others. silence.go has the rules of a peer that answers nobody. The response of a READ is charged like a request. It is also charged to this
// side's receive buffer (readCredit), because the responses of many peers meet there.
//
// UC, UD and the responses of long READs have a window of their own, which time opens (paced.go).
//
// A route has its own lock, which is taken after a queue pair's. The ready list's comes after it. What queue
// pairs share, and how they wait for it, is in fairqueue.go.

package transport

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

// route is the state of the way to one address.
type route struct {
	fairQueue
	silence
	key        routeKey
	users      int // queue pairs of RC and UC, and address handles; guarded by the table's lock
	readCredit *readCredit
	controller controller // guarded by the fair queue's lock
	pacer      pacer      // of UC, UD and READ responses
}

// readCredit is this side's receive buffer. All READs from one of this side's addresses share it. The sum of the
// responses that they expect has a limit. The limit is the largest Path.Flight of all routes from that address
// since there was none.
type readCredit struct {
	fairQueue
	routes int // guarded by the table's lock
}

type routeKey struct{ src, dst netip.Addr }

// routeTable is an engine's routes.
type routeTable struct {
	most int64 // bytes: the limit of the window of a path without Flight

	mu          sync.Mutex
	routes      map[routeKey]*route
	readCredits map[netip.Addr]*readCredit
	unused      []*route // those among routes that address handles used last, the oldest first; see unuse
}

// mostUnused is the number of unused routes that are kept.
const mostUnused = 256

// join makes the queue pair use the route of its path.
func (qp *QP) join(p *Path) {
	qp.leave()
	if r := qp.engine.routes.use(p); r != nil {
		qp.route, qp.vain = r, vain{}
		qp.flight.join(&r.fairQueue, qp)
		qp.reads.join(&r.readCredit.fairQueue, qp)
	}
}

// use returns the route of a path, for one more user; nil if the path has none.
func (t *routeTable) use(p *Path) *route {
	if p == nil || p.Dst.IsMulticast() {
		return nil
	}
	key, limit := routeKey{p.Src, p.Dst}, int64(p.Flight)
	if limit == 0 {
		limit = t.most
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.routes[key]
	if r == nil {
		in := t.readCredits[p.Src]
		if in == nil {
			in = new(readCredit)
			t.readCredits[p.Src] = in
		}
		in.routes++
		in.window.Store(max(in.window.Load(), limit))
		r = &route{key: key, readCredit: in}
		r.pacer.init(limit)
		r.quiet.Store(unproven)
		r.controller.init(limit)
		r.window.Store(min(unprovenWindow*unprovenPacket, r.controller.window))
		t.routes[key] = r
	}
	if i := slices.Index(t.unused, r); i >= 0 {
		t.unused = slices.Delete(t.unused, i, i+1)
	}
	r.users++
	return r
}

// unuse ends one use of a route. The last one deletes the route, or keeps it for later if keep is true. Some programs
// make an address handle for each datagram. A CNP that comes between two of them must slow the next one.
func (t *routeTable) unuse(r *route, keep bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.users--; r.users > 0 {
		return
	}
	if keep {
		if t.unused = append(t.unused, r); len(t.unused) <= mostUnused {
			return
		}
		r, t.unused = t.unused[0], slices.Delete(t.unused, 0, 1)
	}
	delete(t.routes, r.key)
	if r.readCredit.routes--; r.readCredit.routes == 0 {
		delete(t.readCredits, r.key.src)
	}
}

// find returns the route between two addresses, or nil.
func (t *routeTable) find(src, dst netip.Addr) *route {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.routes[routeKey{src, dst}]
}

// leave gives the queue pair's room back and ends the use of its route.
func (qp *QP) leave() {
	r := qp.route
	if r == nil {
		return
	}
	qp.flight.leave()
	qp.reads.leave()
	qp.engine.routes.unuse(r, false)
	qp.route = nil
}

// waits reports whether the queue pair must wait before its next packet, which is one of w's. It is then in line.
// A READ waits for the receive buffer first, and then for the route.
func (qp *QP) waits(now time.Duration, w *sendWQE) bool {
	qp.inLine = nil
	q := &qp.req
	switch {
	case qp.route == nil:
	case qp.route.quiet.Load() == silent:
		return q.una < q.nxt
	case w.wr.Opcode == verbs.OpRDMARead && !qp.route.is(silent) && qp.reads.waits():
		qp.inLine = &qp.reads
	case qp.flight.waits():
		qp.inLine = &qp.flight
		if qp.unproven() && q.deadline == never {
			qp.setDeadline(now)
		}
	}
	return qp.inLine != nil
}

// endQuanta gives back what is left of the queue pair's quanta, because the queue pair has no more to send now.
//
// A queue pair that waits for the route keeps the receive buffer's room for a burst. Otherwise it could wait
// forever: when it has one quantum, the other one would be over. Before the peer's first answer it may wait for long, so it
// keeps nothing.
func (qp *QP) endQuanta() {
	qp.paced.end()
	switch {
	case qp.route == nil:
	case qp.inLine == &qp.flight && !qp.unproven():
		qp.reads.shorten(maxBurst)
	case qp.inLine == &qp.reads:
		qp.flight.endQuantum()
	default:
		qp.flight.endQuantum()
		qp.reads.endQuantum()
	}
}

// hasQuantum reports whether others are in line, and the queue pair's quantum lasts for another burst.
func (qp *QP) hasQuantum() bool { return qp.route != nil && qp.flight.hasQuantum() }

// spend charges packets to the route, and those of a READ response to the receive buffer. It returns true if
// little room is left.
func (qp *QP) spend(w *sendWQE, packets int64) (last bool) {
	if qp.route == nil {
		return false
	}
	if w.wr.Opcode == verbs.OpRDMARead {
		qp.reads.spend(packets * int64(qp.mtu))
	}
	return qp.flight.spend(packets * qp.charge())
}

// mostInFlight returns how many packets the queue pair may have in flight, however large the window is.
func (qp *QP) mostInFlight() int64 { return int64(qp.engine.cfg.Window) }

// ackEvery returns after how many packets the queue pair asks for an ACK: four times per window.
func (qp *QP) ackEvery() int64 {
	every := qp.mostInFlight() / 4
	if r := qp.route; r != nil {
		every = min(every, r.quantum()/int64(qp.mtu))
	}
	return every
}

// settle makes the charge what is in flight now.
func (qp *QP) settle() {
	r, q := qp.route, &qp.req
	if r == nil {
		return
	}
	due, expected := q.nxt-q.una, q.readsInFlight()
	if due > 0 && (r.quiet.Load() != 0 || q.tailProbes >= probedInVain || !qp.canSend()) {
		qp.settleInSilence(due, expected)
		return
	}
	qp.flight.settle(due * int64(qp.mtu))
	qp.reads.settle(expected * int64(qp.mtu))
}

// readsInFlight returns the number of READ response packets among those in flight.
func (r *requester) readsInFlight() int64 {
	if r.una == r.nxt {
		return 0
	}
	return r.readsUpTo(r.cur, r.nxt) - r.readsUpTo(r.head, r.una)
}

// readsUpTo returns the number of READ response packets of all requests so far that are before packet seq, which
// is the next of request i.
func (r *requester) readsUpTo(i uint64, seq int64) int64 {
	if i == r.tail || !r.wqe(i).started {
		return r.readPackets
	}
	w := r.wqe(i)
	if w.wr.Opcode == verbs.OpRDMARead {
		return w.readsBefore + min(seq-w.first, w.packets)
	}
	return w.readsBefore
}

// adjust makes the window what the congestion controller says, if the peer has answered. The caller holds the fair queue's lock.
func (r *route) adjust() {
	if !r.is(unproven) {
		r.window.Store(r.controller.window)
	}
}

// acked notes that packets were acknowledged.
func (qp *QP) acked(now time.Duration, packets int64) {
	if r := qp.route; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hear(now)
		r.controller.acked(packets*int64(qp.mtu), int64(qp.mtu), r.spent.Load(), qp.req.trip.mean)
		r.adjust()
	}
}

// lost notes that one packet was lost, and only that packet is sent again.
func (qp *QP) lost(now time.Duration) {
	if r := qp.route; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.controller.lost(now, qp.req.trip.mean, int64(qp.mtu))
		r.adjust()
	}
}

// lostAll notes that a packet was lost, and all packets behind it are sent again.
func (qp *QP) lostAll(now time.Duration) {
	if r := qp.route; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.controller.lostAll(now, &qp.req.trip, int64(qp.mtu))
		r.adjust()
	}
}
