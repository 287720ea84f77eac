// The requests of Do that are in flight on one queue of a queue pair, and those that nobody
// waits for any more.

package rc

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// A request's ID has its route's tag in the upper half, then its queue, then its place there.
const (
	tagShift   = 32
	placeBits  = 20
	placeMask  = 1<<placeBits - 1
	queueMask  = 1<<(tagShift-placeBits) - 1
	resultSize = 8 // bytes of an atomic's old value
)

// queue holds the requests of Do on one send queue or receive queue. The dispatcher's mu
// guards it.
type queue struct {
	r    *route
	post func(*request) error
	id   uint64     // of its requests, but for their place
	most int        // requests at once
	list []*request // by place
	free []*request
	next []*ticket // those who wait for a request to be free, the first come first
}

// request is one place in a queue. It is used again after its completion came.
type request struct {
	waiter // for the completion
	q      *queue
	place  int
	send   [1]verbs.SendWR
	recv   [1]verbs.RecvWR
	sge    [1]verbs.SGE
	userID uint64
	flying bool
	wc     verbs.WC
	left   *InFlightError // not nil once nobody waits
}

// ticket is a goroutine that waits for a free request. It is reused.
type ticket struct {
	waiter
	got *request
}

var tickets = sync.Pool{New: func() any { return &ticket{waiter: *newWaiter()} }}

// newQueue makes a queue of most requests at once.
func (r *route) newQueue(most int, post func(*request) error) *queue {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	id := uint64(r.tag)<<tagShift | uint64(len(r.queues))<<placeBits
	q := &queue{r: r, post: post, id: id, most: min(most, placeMask)}
	r.queues = append(r.queues, q)
	return q
}

// acquire returns a request that is free, and waits for one if need be. Nobody who comes
// later overtakes.
func (q *queue) acquire(ctx, owner context.Context) (*request, error) {
	q.r.d.mu.Lock()
	defer q.r.d.mu.Unlock()
	if n := len(q.free); n > 0 {
		req := q.free[n-1]
		q.free = q.free[:n-1]
		return req, nil
	}
	if len(q.list) < q.most {
		req := &request{waiter: *newWaiter(), q: q, place: len(q.list)}
		q.list = append(q.list, req)
		return req, nil
	}
	t := tickets.Get().(*ticket)
	defer tickets.Put(t)
	t.got = nil
	q.next = append(q.next, t)
	if _, err := q.r.await(ctx, owner, &t.waiter, func() bool { return t.got != nil }, nil); err != nil {
		i := slices.Index(q.next, t)
		q.next = slices.Delete(q.next, i, i+1)
		return nil, err
	}
	return t.got, nil
}

// release makes a request free, for the first who waits for one. The caller holds mu.
func (q *queue) release(req *request) {
	if len(q.next) == 0 {
		q.free = append(q.free, req)
		return
	}
	t := q.next[0]
	q.next = slices.Delete(q.next, 0, 1)
	t.got = req
	t.wakeUp()
}

// giveBack is release for who does not hold mu.
func (req *request) giveBack() {
	req.q.r.d.mu.Lock()
	defer req.q.r.d.mu.Unlock()
	req.q.release(req)
}

// id returns the ID to post the request with.
func (req *request) id() uint64 { return req.q.id | uint64(req.place) }

// start posts the request. While the program's own requests fill the queue, start waits for
// completions, which make room.
func (req *request) start(ctx, owner context.Context) error {
	r := req.q.r
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	for {
		seen := r.seen
		req.flying, req.left = true, nil
		r.flying++
		r.d.mu.Unlock()
		err := req.q.post(req)
		r.d.mu.Lock()
		if err == nil {
			req.send[0], req.recv[0] = verbs.SendWR{}, verbs.RecvWR{}
			return nil
		}
		req.flying = false
		r.flying--
		if !errors.Is(err, syscall.ENOMEM) {
			return err
		}
		r.stalled = append(r.stalled, &req.waiter)
		_, ended := r.await(ctx, owner, &req.waiter, func() bool { return r.seen != seen }, nil)
		r.stalled = without(r.stalled, &req.waiter)
		if ended != nil {
			return errors.WithMessage(ended, "wait for room in the queue")
		}
	}
}

// finish waits for the completion. If the wait ends before it, the error is an
// *InFlightError, and the request belongs to the dispatcher. Else the caller gives it back.
func (req *request) finish(ctx, owner context.Context) error {
	r := req.q.r
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	_, err := r.await(ctx, owner, &req.waiter, func() bool { return !req.flying }, nil)
	if err != nil {
		req.left = &InFlightError{ID: req.userID, Err: err, r: r}
		return req.left
	}
	return nil
}

// complete takes the completion of one of the route's requests; false if it is none.
func (r *route) complete(wc *verbs.WC) bool {
	q, place := int(wc.ID>>placeBits)&queueMask, int(wc.ID&placeMask)
	if uint32(wc.ID>>tagShift) != r.tag || q >= len(r.queues) || place >= len(r.queues[q].list) {
		return false
	}
	req := r.queues[q].list[place]
	if !req.flying {
		return false
	}
	req.flying = false
	r.flying--
	req.wc = *wc
	req.wc.ID = req.userID
	if left := req.left; left != nil {
		left.end(req.wc)
		req.q.release(req)
		return true
	}
	req.wakeUp()
	return true
}

// shut ends the waits for requests whose completions will not come: the queue pairs are
// destroyed.
func (r *route) shut() {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.gone = true
	for _, q := range r.queues {
		for _, req := range q.list {
			if req.flying && req.left != nil {
				req.left.wake()
			}
		}
	}
}

// InFlightError is the error of a request whose wait ended before the request completed. The
// request's memory belongs to the device until Wait returns a completion, or until
// [Conn.Close] has returned. Only Wait returns that completion.
type InFlightError struct {
	ID  uint64 // of the request
	Err error  // why the wait ended; errors.Is finds it

	r       *route
	done    bool // the rest is guarded by the dispatcher's mu
	wc      verbs.WC
	waiting []*waiter
}

// Error names the request and why the wait ended.
func (e *InFlightError) Error() string {
	return fmt.Sprintf("request %d is in flight, and its memory belongs to the device: %v", e.ID, e.Err)
}

// Unwrap returns the reason.
func (e *InFlightError) Unwrap() error { return e.Err }

// Wait waits for the request's completion, and returns it, failed or not. The error is that of
// ctx's end, or net.ErrClosed after Close. Wait may run beside every method of the Conn.
func (e *InFlightError) Wait(ctx context.Context) (verbs.WC, error) {
	e.r.d.mu.Lock()
	defer e.r.d.mu.Unlock()
	w := waiters.Get().(*waiter)
	defer waiters.Put(w)
	e.waiting = append(e.waiting, w)
	_, err := e.r.await(ctx, context.Background(), w, func() bool { return e.done || e.r.gone }, nil)
	e.waiting = without(e.waiting, w)
	if err == nil && !e.done {
		err = net.ErrClosed
	}
	return e.wc, err
}

// end records the completion. The caller holds mu.
func (e *InFlightError) end(wc verbs.WC) {
	e.wc, e.done = wc, true
	e.wake()
}

func (e *InFlightError) wake() {
	for _, w := range e.waiting {
		w.wakeUp()
	}
}
