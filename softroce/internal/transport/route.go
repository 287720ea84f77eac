// Routes: what all queue pairs of RC that send to one address share. The packets of all of them cross
// the same links and wait in the same receive buffer, so they share one window.
//
//  1. Each packet that is in flight is charged to the route, as one path MTU (spend). A queue pair
//     that finds no room waits in line (waits).
//  2. Acknowledgements give the room back when the queue pair is unlocked (settle). The queue pairs
//     in line then go on the ready list, in the order in which they came (advanceLine). So turns are
//     fair.
//  3. A packet that leaves less room than a turn asks for an ACK. So room always comes back.
//  4. The window starts small and grows by what is acknowledged, up to Path.Flight. Losses shrink it
//     if they are more than links lose without congestion.
//
// A queue pair that has looked for a loss a few times without an answer gives its room back, so that a silent
// peer cannot stop the others. The response of a READ is charged like a request.
//
// UC and UD have no window. A route has a rate for them (paced.go).
//
// A route has its own lock, which is taken after a queue pair's. The ready list's comes after it.

package transport

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/pace"
)

// route is the state of the way to one address.
type route struct {
	key    routeKey
	users  int // queue pairs of RC and UC, and address handles; guarded by the table's lock
	spent  atomic.Int64
	window atomic.Int64
	length atomic.Int32 // of the line
	rate   pace.Rate    // of UC and UD

	mu          sync.Mutex
	first, last *QP // in line
	law         law
}

type routeKey struct{ src, dst netip.Addr }

// routeTable is an engine's routes.
type routeTable struct {
	mu     sync.Mutex
	routes map[routeKey]*route
}

// lookedInVain is the number of looks for a loss after which a queue pair gives its room back.
const lookedInVain = 3

// inLine is a queue pair's place in a route's line, guarded by the route's lock.
type inLine struct {
	next *QP
	in   bool
}

// join makes the queue pair use the route of its path.
func (qp *QP) join(p *Path) {
	qp.leave()
	qp.route = qp.engine.routes.use(p)
}

// use returns the route of a path, for one more user; nil if the path has none.
func (t *routeTable) use(p *Path) *route {
	if p == nil || p.Flight == 0 || p.Dst.IsMulticast() {
		return nil
	}
	key := routeKey{p.Src, p.Dst}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.routes[key]
	if r == nil {
		r = &route{key: key}
		r.law.init(int64(p.Flight))
		r.window.Store(r.law.window)
		t.routes[key] = r
	}
	r.users++
	return r
}

// unuse ends one use of a route. The last one ends the route.
func (t *routeTable) unuse(r *route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.users--; r.users == 0 {
		delete(t.routes, r.key)
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
	r.spent.Add(-qp.charged)
	qp.charged = 0
	r.mu.Lock()
	r.remove(qp)
	r.mu.Unlock()
	qp.engine.advanceLine(r)
	qp.engine.routes.unuse(r)
	qp.route = nil
}

// waits reports whether the queue pair must wait before its next packet: the route has no room, or
// others are in line and the queue pair's turn is over. The queue pair is then in line.
func (qp *QP) waits() bool {
	r := qp.route
	if r == nil || qp.maySend() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if qp.maySend() {
		return false // room came back meanwhile
	}
	if !qp.line.in {
		qp.line = inLine{in: true}
		if r.last == nil {
			r.first = qp
		} else {
			r.last.line.next = qp
		}
		r.last = qp
		r.length.Add(1)
	}
	return true
}

func (qp *QP) maySend() bool {
	r := qp.route
	return r.spent.Load() < r.window.Load() && (r.length.Load() == 0 || qp.turn.Load() > 0)
}

// hasTurn reports whether others are in line, and the queue pair's turn lasts for another burst.
func (qp *QP) hasTurn() bool {
	r := qp.route
	return r != nil && r.length.Load() > 0 && qp.turn.Load() >= maxBurst
}

// spend charges packets to the route. It returns true if little room is left.
func (qp *QP) spend(packets int64) (last bool) {
	r := qp.route
	if r == nil {
		return false
	}
	n := packets * int64(qp.mtu)
	qp.charged += n
	qp.turn.Add(-n)
	return r.spent.Add(n)+r.turn() > r.window.Load()
}

// ackEvery returns after how many packets the queue pair asks for an ACK: four times per window.
func (qp *QP) ackEvery() int64 {
	every := qp.req.window.packets / 4
	if r := qp.route; r != nil {
		every = min(every, r.turn()/int64(qp.mtu))
	}
	return every
}

// turn is how many bytes a queue pair sends before the next in line. Long bursts cost less.
func (r *route) turn() int64 { return r.window.Load() / 4 }

// settle makes the charge what is in flight now.
func (qp *QP) settle() {
	r := qp.route
	if r == nil {
		return
	}
	q := &qp.req
	due := (q.nxt - q.una) * int64(qp.mtu)
	if q.looks >= lookedInVain || !qp.canSend() {
		due = 0
	}
	if due != qp.charged {
		r.spent.Add(due - qp.charged)
		qp.charged = due
	}
	qp.engine.advanceLine(r)
}

// advanceLine puts queue pairs at the front of the line on the ready list, one per turn that there is
// room for. Every change of a queue pair ends with it. So if there is room for a turn and somebody is
// in line, the next one is on the ready list.
func (e *Engine) advanceLine(r *route) {
	turn := r.turn()
	if r.length.Load() == 0 || r.spent.Load()+turn > r.window.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for room := r.window.Load() - r.spent.Load(); room >= turn && r.first != nil; room -= turn {
		next := r.first
		r.remove(next)
		next.turn.Store(turn)
		e.ready.add(next)
	}
}

// remove takes a queue pair out of the line.
func (r *route) remove(qp *QP) {
	if !qp.line.in {
		return
	}
	var before *QP
	for q := r.first; q != qp; q = q.line.next {
		before = q
	}
	if before == nil {
		r.first = qp.line.next
	} else {
		before.line.next = qp.line.next
	}
	if r.last == qp {
		r.last = before
	}
	qp.line = inLine{}
	r.length.Add(-1)
}

// acked notes that packets were acknowledged.
func (qp *QP) acked(packets int64) {
	if r := qp.route; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.law.acked(packets*int64(qp.mtu), int64(qp.mtu), r.spent.Load(), qp.req.trip.mean)
		r.window.Store(r.law.window)
	}
}

// lost notes that one packet was lost, and only that packet is sent again.
func (qp *QP) lost(now time.Duration) {
	r := qp.route
	if r == nil {
		qp.req.window.lose()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.law.lost(now, qp.req.trip.mean, int64(qp.mtu))
	r.window.Store(r.law.window)
}
