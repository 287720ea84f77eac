// The requests of Do on one queue of a queue pair.

package dispatch

import (
	"context"
	"net"
	"slices"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/sync/turn"
	"github.com/rawverbs/rawverbs/verbs"
)

// A request's ID has its route's tag in the upper half, then its queue, then its place there.
const (
	tagShift  = 32
	placeBits = 20
	placeMask = 1<<placeBits - 1
	queueMask = 1<<(tagShift-placeBits) - 1
)

// Queue holds the requests of Do on one send queue or receive queue. The dispatcher's mutex guards its
// fields.
type Queue struct {
	r    *Route
	post func(*Request) error
	id   uint64     // ID of its requests, without their place
	Most int        // limit of requests at a time
	list []*Request // by place
	free []*Request
	next []*ticket // goroutines that wait for a free request, in order
}

// Request is one place in a queue. It is reused after its completion.
type Request struct {
	*turn.Waiter // of the goroutine that waits for the completion
	q            *Queue
	Place        int
	Send         [1]verbs.SendWR
	Recv         [1]verbs.RecvWR
	SGE          [1]verbs.SGE
	UserID       uint64
	flying       bool
	WC           verbs.WC
	left         *Left // set when the wait ended before the completion
}

// ticket is a goroutine that waits for a free request.
type ticket struct {
	*turn.Waiter
	got *Request
}

// NewQueue makes a queue with a limit of most requests at a time. post posts one request.
func (r *Route) NewQueue(most int, post func(*Request) error) *Queue {
	r.d.Lock()
	defer r.d.Unlock()
	id := uint64(r.tag)<<tagShift | uint64(len(r.queues))<<placeBits
	q := &Queue{r: r, post: post, id: id, Most: min(most, placeMask)}
	r.queues = append(r.queues, q)
	return q
}

// Acquire returns a free request, or waits for one. Waiting goroutines are served in order.
func (q *Queue) Acquire(ctx, owner context.Context) (*Request, error) {
	q.r.d.Lock()
	defer q.r.d.Unlock()
	if n := len(q.free); n > 0 {
		req := q.free[n-1]
		q.free = q.free[:n-1]
		return req, nil
	}
	if len(q.list) < q.Most {
		req := &Request{Waiter: turn.NewWaiter(), q: q, Place: len(q.list)}
		q.list = append(q.list, req)
		return req, nil
	}
	t := &ticket{Waiter: q.r.d.Borrow()}
	defer q.r.d.Return(t.Waiter)
	q.next = append(q.next, t)
	if err := q.r.Await(ctx, owner, t.Waiter, func() bool { return t.got != nil }); err != nil {
		i := slices.Index(q.next, t)
		q.next = slices.Delete(q.next, i, i+1)
		return nil, err
	}
	return t.got, nil
}

// release gives a request to the first goroutine that waits for one, or frees it. The caller holds the mutex.
func (q *Queue) release(req *Request) {
	if len(q.next) == 0 {
		q.free = append(q.free, req)
		return
	}
	t := q.next[0]
	q.next = slices.Delete(q.next, 0, 1)
	t.got = req
	q.r.d.Wake(t.Waiter)
}

// GiveBack frees a request.
func (req *Request) GiveBack() {
	req.q.r.d.Lock()
	defer req.q.r.d.Unlock()
	req.q.release(req)
}

// ID returns the ID to post the request with.
func (req *Request) ID() uint64 { return req.q.id | uint64(req.Place) }

// Start posts the request. If the program's own requests fill the queue, Start waits for completions
// and tries again.
func (req *Request) Start(ctx, owner context.Context) error {
	r := req.q.r
	r.d.Lock()
	defer r.d.Unlock()
	for {
		seen := r.seen
		req.flying, req.left = true, nil
		r.flying++
		r.d.Unlock()
		err := req.q.post(req)
		r.d.Lock()
		if err == nil {
			req.Send[0], req.Recv[0] = verbs.SendWR{}, verbs.RecvWR{}
			return nil
		}
		req.flying = false
		r.flying--
		if !errors.Is(err, syscall.ENOMEM) {
			return err
		}
		if err := r.awaitAmong(ctx, owner, &r.stalled, func() bool { return r.seen != seen }); err != nil {
			return errors.WithMessage(err, "wait for room in the queue")
		}
	}
}

// Finish waits for the completion. If the wait ends first, Finish returns a Left and the error, and the
// dispatcher frees the request later. Otherwise the caller gives the request back.
func (req *Request) Finish(ctx, owner context.Context) (*Left, error) {
	r := req.q.r
	r.d.Lock()
	defer r.d.Unlock()
	err := r.Await(ctx, owner, req.Waiter, func() bool { return !req.flying })
	if err != nil {
		req.left = &Left{r: r}
	}
	return req.left, err
}

// complete records the completion of a request of Do. It returns false for other completions.
func (r *Route) complete(wc *verbs.WC) bool {
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
	req.WC = *wc
	req.WC.ID = req.UserID
	if left := req.left; left != nil {
		left.wc, left.done = req.WC, true
		left.waiting.WakeAll()
		req.q.release(req)
		return true
	}
	req.Wake()
	return true
}

// Shut ends the waits for requests whose completions will not come, because the queue pairs are
// destroyed.
func (r *Route) Shut() {
	r.d.Lock()
	defer r.d.Unlock()
	r.gone = true
	r.d.Interrupt() // whoever polls may wait for such a request
	for _, q := range r.queues {
		for _, req := range q.list {
			if req.flying && req.left != nil {
				req.left.waiting.WakeAll()
			}
		}
	}
}

// Left is a request whose wait ended before its completion came.
type Left struct {
	r       *Route
	done    bool // the dispatcher's mutex guards done, wc and waiting
	wc      verbs.WC
	waiting turn.Waiters
}

// Wait returns the request's completion, failed or not. The error is that of ctx, or net.ErrClosed
// after Shut.
func (l *Left) Wait(ctx context.Context) (verbs.WC, error) {
	l.r.d.Lock()
	defer l.r.d.Unlock()
	err := l.r.awaitAmong(ctx, context.Background(), &l.waiting, func() bool { return l.done || l.r.gone })
	if err == nil && !l.done {
		err = net.ErrClosed
	}
	return l.wc, err
}
