// Package dispatch polls a completion queue for all goroutines that wait for its completions. One
// of those goroutines leads: it polls and hands out the completions. The others sleep until their
// completion has come, or until it is their turn to lead.
package dispatch

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/ctxwatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// dispatchBatch is the number of completions that a leader polls at once for others.
const dispatchBatch = 32

// Dispatcher polls a CQ for one or more Conns. Each Conn has a route.
type Dispatcher struct {
	cq *verbs.CQ

	mu      sync.Mutex
	leading bool    // a goroutine polls; only that goroutine uses batch
	leader  *waiter // its waiter; nil if it waits for completions alone
	batch   [dispatchBatch]verbs.WC
	routes  map[uint32]*Route // by QPN
	rest    *Route            // gets the completions of queue pairs without a route; nil drops them
	first   *waiter           // sleeping goroutines, first to last
	last    *waiter

	turn     context.Context // the leader's wait ends with it
	endTurn  context.CancelCauseFunc
	sweeps   uint64    // number of sweeps so far
	catching []*waiter // goroutines that wait for a sweep
}

// errNudged ends the turn of a leader, which then hands out what it has polled.
var errNudged = errors.New("another goroutine needs what was polled")

// New returns a dispatcher without routes.
func New(cq *verbs.CQ) *Dispatcher {
	d := &Dispatcher{cq: cq, routes: make(map[uint32]*Route)}
	d.turn, d.endTurn = context.WithCancelCause(context.Background())
	return d
}

// NewRoute returns a route without queue pairs. Its waits poll for spin before they sleep. If
// nobody reads the program's completions, the route calls overrun, which must not block.
func (d *Dispatcher) NewRoute(spin time.Duration, overrun func(error)) *Route {
	return &Route{d: d, spin: spin, overrun: overrun, tag: rand.Uint32()}
}

// ClaimRest directs the completions of all queue pairs that no route has claimed to the route.
func (r *Route) ClaimRest() {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.d.rest = r
}

// Claim directs the completions of a queue pair to the route.
func (r *Route) Claim(qpn uint32) {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.d.routes[qpn] = r
}

// Release drops the completions of a queue pair from now on.
func (r *Route) Release(qpn uint32) {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if r.d.routes[qpn] == r {
		delete(r.d.routes, qpn)
	}
}

// Route takes the completions of one Conn. The dispatcher's mu guards all fields except d, spin, tag
// and overrun.
type Route struct {
	d    *Dispatcher
	spin time.Duration
	tag  uint32 // upper half of the IDs of Do's requests; random, to differ from the program's IDs

	inbox   []verbs.WC // completions of the program's own requests, unread from taken on
	taken   int
	readers []*waiter // goroutines that wait for the inbox
	queues  []*Queue  // requests of Do
	flying  int       // number of Do's requests in flight
	seen    uint64    // number of completions so far
	stalled []*waiter // goroutines that wait for any completion
	gone    bool      // no more completions come

	overrun func(error) // called when nobody reads the inbox
}

// Flying returns the number of Do's requests in flight.
func (r *Route) Flying() int {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	return r.flying
}

// waiter is a waiting goroutine. Waiters are reused.
type waiter struct {
	wake       chan struct{} // holds at most one wake-up
	prev, next *waiter
}

func newWaiter() *waiter { return &waiter{wake: make(chan struct{}, 1)} }

var waiters = sync.Pool{New: func() any { return newWaiter() }}

func (w *waiter) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// wake wakes a waiting goroutine. If that goroutine leads, it waits for the CQ, and its turn ends.
// The caller holds mu.
func (d *Dispatcher) wake(w *waiter) {
	if d.leading && d.leader == w {
		d.endTurn(errNudged)
	}
	w.wakeUp()
}

// Read waits for completions of the program's own requests and moves them to wcs. Completions that
// have come are returned even if ctx or owner has ended.
func (r *Route) Read(ctx, owner context.Context, wcs []verbs.WC) (n int, err error) {
	d := r.d
	if len(wcs) == 0 {
		return d.cq.Wait(ctx, wcs) // for the error of Wait
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.leading && r.taken == len(r.inbox) { // the usual case
		if n, err = r.lead(ctx, owner, nil, wcs, r); n > 0 || err != nil && r.taken == len(r.inbox) {
			d.passOn()
			return n, err
		}
	}
	w := waiters.Get().(*waiter)
	defer waiters.Put(w)
	r.readers = append(r.readers, w)
	n, err = r.await(ctx, owner, w, func() bool { return r.taken < len(r.inbox) }, wcs)
	r.readers = without(r.readers, w)
	if n == 0 {
		n = r.take(wcs)
	}
	if r.taken < len(r.inbox) && len(r.readers) > 0 {
		r.readers[0].wakeUp()
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// await waits until met returns true. The error is the reason why the wait ended before that. The
// caller holds mu, and met is called with mu held. If buf is not nil and this goroutine polls
// completions for the route's inbox, they go to buf, and await returns their number.
func (r *Route) await(ctx, owner context.Context, w *waiter, met func() bool, buf []verbs.WC) (n int, err error) {
	d := r.d
	for n == 0 && err == nil && !met() {
		if d.leading {
			if err = d.follow(ctx, owner, w); err != nil {
				d.catchUp(w)
			}
			continue
		}
		if buf != nil {
			n, err = r.lead(ctx, owner, w, buf, r)
		} else {
			_, err = r.lead(ctx, owner, w, d.batch[:], nil)
		}
	}
	d.passOn()
	if err != nil && met() {
		err = nil
	}
	return n, err
}

// catchUp returns when all completions that have come are handed out: those in the CQ, and those that
// a leader has polled. So a wait that ends does not miss a completion that came before its end.
func (d *Dispatcher) catchUp(w *waiter) {
	d.catching = append(d.catching, w)
	for sweeps := d.sweeps; d.sweeps == sweeps; {
		if !d.leading {
			d.sweep()
			break
		}
		d.endTurn(errNudged)
		d.mu.Unlock()
		<-w.wake
		d.mu.Lock()
	}
	d.catching = without(d.catching, w)
}

// sweep hands out everything in the CQ. The caller holds mu, and nobody leads.
func (d *Dispatcher) sweep() {
	for n := len(d.batch); n == len(d.batch); {
		n, _ = d.cq.Poll(d.batch[:])
		d.handOut(d.batch[:n], nil)
	}
	d.sweeps++
	for _, w := range d.catching {
		w.wakeUp()
	}
}

// lead polls, waits if there is nothing, and hands out the completions. The completions of the
// route keep stay at the front of wcs, and lead returns their number. The caller holds mu; lead
// releases it while it waits. w is the caller's waiter, or nil.
func (r *Route) lead(ctx, owner context.Context, w *waiter, wcs []verbs.WC, keep *Route) (n int, err error) {
	d := r.d
	d.leading, d.leader = true, w
	until := owner
	if owner.Err() == nil {
		if d.turn.Err() != nil {
			d.turn, d.endTurn = context.WithCancelCause(context.Background())
		}
		until = d.turn
	}
	d.mu.Unlock()
	n, err = d.cq.WaitFor(ctx, wcs, verbs.WaitOptions{Owner: until, Spin: r.spin})
	if err != nil && !errors.Is(err, net.ErrClosed) {
		n, _ = d.cq.Poll(wcs) // a completion may have come just before the end
	}
	d.mu.Lock()
	d.leading = false
	if errors.Is(err, errNudged) {
		if err = nil; owner.Err() != nil {
			err = context.Cause(owner)
		}
	}
	kept := d.handOut(wcs[:n], keep)
	if err != nil || len(d.catching) > 0 {
		d.sweep()
	}
	if kept > 0 {
		err = nil
	}
	return kept, err
}

// follow sleeps until another goroutine wakes w, or ctx or owner ends. The caller holds mu.
func (d *Dispatcher) follow(ctx, owner context.Context, w *waiter) (err error) {
	d.enqueue(w)
	d.mu.Unlock()
	select {
	case <-w.wake:
	case <-ctx.Done():
		err = ctxwatch.Err(ctx)
	case <-owner.Done():
		err = context.Cause(owner)
	}
	d.mu.Lock()
	d.dequeue(w)
	return err
}

// Nudge makes the leader, if there is one, hand out what the CQ has and look at its owner. A
// leader does not watch its owner, so a Conn calls Nudge when its context ends.
func (r *Route) Nudge() {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.d.endTurn(errNudged)
}

// passOn wakes a sleeping goroutine to lead, if nobody leads.
func (d *Dispatcher) passOn() {
	if !d.leading && d.first != nil {
		d.first.wakeUp()
	}
}

func (d *Dispatcher) enqueue(w *waiter) {
	w.prev, w.next = d.last, nil
	if d.last != nil {
		d.last.next = w
	} else {
		d.first = w
	}
	d.last = w
}

func (d *Dispatcher) dequeue(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		d.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		d.last = w.prev
	}
	w.prev, w.next = nil, nil
}

// handOut gives each completion to its request or its route. The completions for keep's inbox move
// to the front of wcs, and handOut returns their number.
func (d *Dispatcher) handOut(wcs []verbs.WC, keep *Route) (kept int) {
	for i := range wcs {
		wc := &wcs[i]
		r, claimed := d.routes[wc.QPN]
		if !claimed {
			r = d.rest
		}
		if r == nil {
			continue
		}
		r.seen++
		switch {
		case r.flying > 0 && r.complete(wc):
		case r == keep:
			if kept != i {
				wcs[kept] = *wc
			}
			kept++
		default:
			r.put(wc)
		}
		for _, w := range r.stalled {
			w.wakeUp()
		}
	}
	return kept
}

// put adds a completion to the inbox, which has room for as many completions as the CQ.
func (r *Route) put(wc *verbs.WC) {
	if unread := len(r.inbox) - r.taken; unread >= r.d.cq.Depth() {
		r.overrun(errors.Errorf("nobody has read %d completions of the program's own requests; try: WaitSend or WaitRecv beside the requests of Do", unread))
		return
	}
	if r.taken > 0 && len(r.inbox) == cap(r.inbox) {
		r.inbox = r.inbox[:copy(r.inbox, r.inbox[r.taken:])]
		r.taken = 0
	}
	r.inbox = append(r.inbox, *wc)
	if len(r.readers) > 0 {
		r.readers[0].wakeUp()
	}
}

// take moves completions from the inbox to wcs.
func (r *Route) take(wcs []verbs.WC) int {
	n := copy(wcs, r.inbox[r.taken:])
	if r.taken += n; r.taken == len(r.inbox) {
		r.inbox, r.taken = r.inbox[:0], 0
	}
	return n
}

// without removes w from list and keeps the order of the others.
func without(list []*waiter, w *waiter) []*waiter {
	for i := range list {
		if list[i] == w {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}
