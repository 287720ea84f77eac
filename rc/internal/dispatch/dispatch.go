// Package dispatch polls a completion queue for all goroutines that wait for its completions. One
// of those goroutines polls and hands out the completions; see package turn.
package dispatch

import (
	"context"
	"math/rand/v2"
	"net"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/sync/turn"
	"github.com/rawverbs/rawverbs/verbs"
)

// dispatchBatch is the number of completions that are polled at once for others.
const dispatchBatch = 64

// Dispatcher polls a CQ for one or more Conns. Each Conn has a route. The turn's mutex guards the routes.
type Dispatcher struct {
	turn.Turn
	cq     *verbs.CQ
	batch  [dispatchBatch]verbs.WC // for the goroutine that polls
	routes map[uint32]*Route       // by QPN
	rest   *Route                  // gets the completions of queue pairs without a route; nil drops them

	wait    context.Context // ends the wait for completions
	endWait context.CancelCauseFunc
}

// errNudged ends a wait for completions, so that what was polled is handed out.
var errNudged = errors.New("another goroutine needs what was polled")

// New returns a dispatcher without routes.
func New(cq *verbs.CQ) *Dispatcher {
	d := &Dispatcher{cq: cq, routes: make(map[uint32]*Route)}
	d.wait, d.endWait = context.WithCancelCause(context.Background())
	d.Interrupt = func() { d.endWait(errNudged) }
	return d
}

// NewRoute returns a route without queue pairs. Its waits poll for spin before they sleep. If
// nobody reads the program's completions, the route calls overrun, which must not block.
func (d *Dispatcher) NewRoute(spin time.Duration, overrun func(error)) *Route {
	return &Route{d: d, spin: spin, overrun: overrun, tag: rand.Uint32()}
}

// ClaimRest directs the completions of all queue pairs that no route has claimed to the route.
func (r *Route) ClaimRest() {
	r.d.Lock()
	defer r.d.Unlock()
	r.d.rest = r
}

// Claim directs the completions of a queue pair to the route.
func (r *Route) Claim(qpn uint32) {
	r.d.Lock()
	defer r.d.Unlock()
	r.d.routes[qpn] = r
}

// Release drops the completions of a queue pair from now on.
func (r *Route) Release(qpn uint32) {
	r.d.Lock()
	defer r.d.Unlock()
	if r.d.routes[qpn] == r {
		delete(r.d.routes, qpn)
	}
}

// Route takes the completions of one Conn. The dispatcher's mutex guards all fields except d, spin, tag
// and overrun.
type Route struct {
	d    *Dispatcher
	spin time.Duration
	tag  uint32 // upper half of the IDs of Do's requests; random, to differ from the program's IDs

	inbox   []verbs.WC // completions of the program's own requests, unread from taken on
	taken   int
	readers turn.Waiters     // goroutines that wait for the inbox
	queues  []*Queue         // requests of Do
	flying  int              // number of Do's requests in flight
	seen    uint64           // number of completions so far
	stalled turn.Waiters     // goroutines that wait for any completion
	gone    bool             // no more completions come
	handle  func([]verbs.WC) // see Handle; nil: completions go to the inbox

	overrun func(error) // called when nobody reads the inbox
}

// Flying returns the number of Do's requests in flight.
func (r *Route) Flying() int {
	r.d.Lock()
	defer r.d.Unlock()
	return r.flying
}

// Read waits for completions of the program's own requests and moves them to wcs. Completions that
// have come are returned even if ctx or owner has ended.
func (r *Route) Read(ctx, owner context.Context, wcs []verbs.WC) (n int, err error) {
	d := r.d
	if len(wcs) == 0 {
		return d.cq.Wait(ctx, wcs) // for the error of Wait
	}
	d.Lock()
	defer d.Unlock()
	err = d.AwaitAmong(ctx, owner, &r.readers, func() bool { return n > 0 || r.taken < len(r.inbox) }, func() (err error) {
		n, err = r.poll(ctx, owner, wcs, r)
		return err
	})
	if n == 0 {
		n = r.take(wcs)
	}
	if r.taken < len(r.inbox) {
		r.readers.WakeFirst()
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// Handle has handle take all completions of the route's queue pairs, unless they are of requests of Do. handle is called with the
// mutex held, by the goroutine that polls, and wakes those who wait for what it has found. nil: they are for Read again.
func (r *Route) Handle(handle func([]verbs.WC)) {
	r.d.Lock()
	defer r.d.Unlock()
	if r.handle = handle; handle != nil && r.taken < len(r.inbox) {
		handle(r.inbox[r.taken:])
		r.inbox, r.taken = r.inbox[:0], 0
	}
}

// Turn is whose turn it is to poll. The routes of a dispatcher share it, and its mutex.
func (r *Route) Turn() *turn.Turn { return &r.d.Turn }

// Await waits until ready returns true, and polls meanwhile if nobody else does; see [turn.Turn.Await].
func (r *Route) Await(ctx, owner context.Context, w *turn.Waiter, ready func() bool) error {
	return r.d.Await(ctx, owner, w, ready, func() error { return r.pollForOthers(ctx, owner) })
}

// pollForOthers is poll that keeps nothing.
func (r *Route) pollForOthers(ctx, owner context.Context) error {
	_, err := r.poll(ctx, owner, r.d.batch[:], nil)
	return err
}

// awaitAmong is Await with a waiter that is among others meanwhile.
func (r *Route) awaitAmong(ctx, owner context.Context, ws *turn.Waiters, ready func() bool) error {
	return r.d.AwaitAmong(ctx, owner, ws, ready, func() error { return r.pollForOthers(ctx, owner) })
}

// poll polls, waits if there is nothing, and hands out the completions. The completions of the
// route keep stay at the front of wcs, and poll returns their number. When a context has ended, it hands out
// everything there is. The caller has the turn; poll releases the mutex while it waits.
func (r *Route) poll(ctx, owner context.Context, wcs []verbs.WC, keep *Route) (n int, err error) {
	d := r.d
	until := owner
	if owner.Err() == nil {
		if d.wait.Err() != nil {
			d.wait, d.endWait = context.WithCancelCause(context.Background())
		}
		until = d.wait
	}
	d.Unlock()
	n, err = d.cq.WaitFor(ctx, wcs, verbs.WaitOptions{Owner: until, Spin: r.spin})
	if err != nil && !errors.Is(err, net.ErrClosed) {
		n, _ = d.cq.Poll(wcs) // a completion may have come just before the end
	}
	d.Lock()
	if errors.Is(err, errNudged) {
		if err = nil; owner.Err() != nil {
			err = context.Cause(owner)
		}
	}
	kept := d.handOut(wcs[:n], keep)
	if err != nil || ctx.Err() != nil || owner.Err() != nil {
		d.sweep()
	}
	if kept > 0 {
		err = nil
	}
	return kept, err
}

// sweep hands out everything there is.
func (d *Dispatcher) sweep() {
	for n := len(d.batch); n == len(d.batch); {
		n, _ = d.cq.Poll(d.batch[:])
		d.handOut(d.batch[:n], nil)
	}
}

// Sweep hands out everything there is, unless a goroutine polls. The caller holds the mutex.
func (r *Route) Sweep() {
	if r.d.Works(nil) {
		r.d.sweep()
	}
}

// Nudge makes the goroutine that polls, if there is one, hand out what the CQ has and look at its owner. It
// does not watch its owner, so a Conn calls Nudge when its context ends.
func (r *Route) Nudge() {
	r.d.Lock()
	defer r.d.Unlock()
	r.d.Interrupt()
}

// handOut gives each completion to its request or its route. The completions for keep's inbox move
// to the front of wcs, and handOut returns their number.
func (d *Dispatcher) handOut(wcs []verbs.WC, keep *Route) (kept int) {
	for i := 0; i < len(wcs); i++ {
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
		case r.handle != nil:
			first := i
			for i+1 < len(wcs) && wcs[i+1].QPN == wc.QPN && r.flying == 0 {
				i++
			}
			r.handle(wcs[first : i+1])
		case r == keep:
			if kept != i {
				wcs[kept] = *wc
			}
			kept++
		default:
			r.put(wc)
		}
		r.stalled.WakeAll()
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
	r.readers.WakeFirst()
}

// take moves completions from the inbox to wcs.
func (r *Route) take(wcs []verbs.WC) int {
	n := copy(wcs, r.inbox[r.taken:])
	if r.taken += n; r.taken == len(r.inbox) {
		r.inbox, r.taken = r.inbox[:0], 0
	}
	return n
}
