// Package turn has one of the goroutines that wait do the work for all of them, such as polling a completion
// queue. The others sleep until what they wait for has come, or until it is their turn to work. So a goroutine
// that waits alone is woken by nobody: it does the work itself.
package turn

import (
	"context"
	"sync"

	"github.com/rawverbs/rawverbs/internal/ctxwatch"
)

// Turn is whose turn it is. Its mutex guards what the waiters wait for, and the fields below.
type Turn struct {
	sync.Mutex

	// Interrupt makes the work that goes on return soon. If the work is about to begin, or about to block, it
	// must not block either. It is called with the mutex held.
	Interrupt func()

	worker      *Waiter // nil: nobody works
	asked       int     // goroutines that take the turn from whoever has it
	first, last *Waiter // asleep, in the order in which they are to work
}

// Waiter is a place for one waiting goroutine. NewWaiter makes it. It can be used again.
type Waiter struct {
	wake       chan struct{} // holds at most one wake-up
	asleep     bool
	prev, next *Waiter
}

// NewWaiter returns a Waiter.
func NewWaiter() *Waiter { return &Waiter{wake: make(chan struct{}, 1)} }

// Waiters has waiters for calls that have none of their own.
var Waiters = sync.Pool{New: func() any { return NewWaiter() }}

// Wake makes the waiter's goroutine, if it sleeps, look whether it is ready. Whoever works calls it for those
// whose work is done.
func (w *Waiter) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Wake makes the waiter's goroutine look whether it is ready, whether it sleeps or works. The caller holds the
// mutex.
func (t *Turn) Wake(w *Waiter) {
	if t.worker == w {
		t.Interrupt()
	}
	w.Wake()
}

// Works reports whether the waiter's goroutine works, or, with nil, whether nobody works. The caller holds the mutex.
func (t *Turn) Works(w *Waiter) bool { return t.worker == w }

// Asleep reports whether the waiter's goroutine sleeps. The caller holds the turn's mutex.
func (w *Waiter) Asleep() bool { return w.asleep }

// Await returns when ready returns true. The error is why the wait ended before that: the end of ctx, that of owner,
// or an error of work. A waiter that is ready never loses to such an end: Await then works once more
// itself, to find what has come.
//
// The caller holds the mutex, and ready and work are called with it. One goroutine at a time is in work, which
// releases the mutex while it blocks, ends with ctx and owner, and wakes the waiters that it has made ready.
func (t *Turn) Await(ctx, owner context.Context, w *Waiter, ready func() bool, work func() error) (err error) {
	for err == nil && !ready() {
		if t.worker == nil && t.asked == 0 {
			err = t.work(w, work)
		} else if err = t.sleep(ctx, owner, w); err != nil {
			t.take(w)
			_ = t.work(w, work) // it returns soon, because a context has ended
		}
	}
	t.passOn()
	if err != nil && ready() {
		err = nil
	}
	return err
}

func (t *Turn) work(w *Waiter, work func() error) error {
	t.worker = w
	defer func() { t.worker = nil }()
	err := work()
	if t.asked > 0 {
		t.first.Wake()
	}
	return err
}

// take returns when nobody works, and it is the waiter's turn.
func (t *Turn) take(w *Waiter) {
	t.asked++
	for t.worker != nil {
		t.Interrupt()
		t.insert(w, nil)
		t.Unlock()
		<-w.wake
		t.Lock()
		t.remove(w)
	}
	t.asked--
}

// sleep returns when the waiter is woken, or ctx or owner has ended.
func (t *Turn) sleep(ctx, owner context.Context, w *Waiter) (err error) {
	t.insert(w, t.last)
	t.Unlock()
	select {
	case <-w.wake:
	case <-ctx.Done():
		err = ctxwatch.Err(ctx)
	case <-owner.Done():
		err = context.Cause(owner)
	}
	t.Lock()
	t.remove(w)
	return err
}

// passOn wakes the first of those who sleep, if nobody works.
func (t *Turn) passOn() {
	if t.worker == nil && t.first != nil {
		t.first.Wake()
	}
}

// insert puts the waiter behind another one, or at the front.
func (t *Turn) insert(w, after *Waiter) {
	w.asleep = true
	w.prev, w.next = after, t.first
	if after != nil {
		w.next = after.next
		after.next = w
	} else {
		t.first = w
	}
	if w.next != nil {
		w.next.prev = w
	} else {
		t.last = w
	}
}

func (t *Turn) remove(w *Waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		t.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		t.last = w.prev
	}
	w.prev, w.next, w.asleep = nil, nil, false
}
