// Package turn has one of the goroutines that wait do the work for all of them, such as polling a completion
// queue. The others sleep until what they wait for has come, or until it is their turn to work. So a goroutine
// that waits alone is woken by nobody: it does the work itself.
package turn

import (
	"context"
	"slices"
	"sync"

	"github.com/rawverbs/rawverbs/internal/sync/ctxwatch"
)

// Turn is whose turn it is. Its mutex guards what the waiters wait for, and the fields below.
type Turn struct {
	sync.Mutex

	// Interrupt makes the work that goes on return soon. If the work is about to begin, or about to block, it
	// must not block either. It is called with the mutex held.
	Interrupt func()

	worker      *Waiter // nil: nobody works
	asked       int     // goroutines that take the turn from whoever has it
	held        bool    // see Hold
	rounds      uint64  // how often somebody has worked
	first, last *Waiter // asleep, in the order in which they are to work
	stander     stander
	spare       []*Waiter // see Borrow; not a sync.Pool, because channels may not leave a bubble of testing/synctest
}

// Waiter is a place for one waiting goroutine. NewWaiter makes it. It can be used again.
type Waiter struct {
	wake       chan struct{} // holds at most one wake-up
	asleep     bool
	prev, next *Waiter
}

// NewWaiter returns a Waiter.
func NewWaiter() *Waiter { return &Waiter{wake: make(chan struct{}, 1)} }

// Waiters are the goroutines that wait for the same, in order. The turn's mutex guards them.
type Waiters []*Waiter

// WakeFirst is Wake of the first waiter, if there is one.
func (ws Waiters) WakeFirst() {
	if len(ws) > 0 {
		ws[0].Wake()
	}
}

// WakeAll is Wake of all waiters.
func (ws Waiters) WakeAll() {
	for _, w := range ws {
		w.Wake()
	}
}

// AwaitAmong is Await with a Waiter that is among others meanwhile.
func (t *Turn) AwaitAmong(ctx, owner context.Context, ws *Waiters, ready func() bool, work func() error) error {
	w := t.Borrow()
	*ws = append(*ws, w)
	err := t.Await(ctx, owner, w, ready, work)
	i := slices.Index(*ws, w)
	*ws = slices.Delete(*ws, i, i+1)
	t.Return(w)
	return err
}

// Borrow returns a Waiter for a call that has none of its own, until Return. The caller holds the mutex.
func (t *Turn) Borrow() *Waiter {
	if len(t.spare) == 0 {
		return NewWaiter()
	}
	w := t.spare[len(t.spare)-1]
	t.spare = t.spare[:len(t.spare)-1]
	return w
}

// Return ends Borrow. The caller holds the mutex.
func (t *Turn) Return(w *Waiter) {
	if len(t.spare) < 64 { // after a crowd they would stay for good
		t.spare = append(t.spare, w)
	}
}

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

// Works reports whether the waiter's goroutine works, or, with nil, whether nobody works or holds the turn. The caller holds
// the mutex.
func (t *Turn) Works(w *Waiter) bool { return t.worker == w && (w != nil || !t.held) }

// Asleep reports whether the waiter's goroutine sleeps. The caller holds the turn's mutex.
func (w *Waiter) Asleep() bool { return w.asleep }

// Await returns when ready returns true. The error is why the wait ended before that: the end of ctx, that of owner,
// or an error of work. A waiter that is ready never loses to such an end: Await then works once more
// itself, to find what has come.
//
// The caller holds the mutex, and ready and work are called with it. ready may take what it finds: after it has returned
// true, it is not called again. One goroutine at a time is in work, which
// releases the mutex while it blocks, ends with ctx and owner, and wakes the waiters that it has made ready.
func (t *Turn) Await(ctx, owner context.Context, w *Waiter, ready func() bool, work func() error) (err error) {
	for err == nil && !ready() {
		switch {
		case t.worker == nil && t.free():
			err = t.work(w, work)
		case t.worker != nil && t.worker == t.stander.w && t.free():
			if t.take(w); ready() { // not twice: ready may take what it finds
				t.passOn()
				return nil
			}
			err = t.work(w, work)
		default:
			if err = t.sleep(ctx, owner, w); err != nil {
				t.take(w)
				_ = t.work(w, work) // it returns soon, because a context has ended
			}
		}
	}
	t.passOn()
	if err != nil && ready() {
		err = nil
	}
	return err
}

// free reports whether nobody else takes the turn or holds it.
func (t *Turn) free() bool { return t.asked == 0 && !t.held }

func (t *Turn) work(w *Waiter, work func() error) error {
	t.begin(w)
	err := work()
	t.end()
	return err
}

func (t *Turn) begin(w *Waiter) {
	t.worker = w
	t.rounds++
}

func (t *Turn) end() {
	t.worker = nil
	switch {
	case t.asked > 0 && t.first != nil:
		t.first.Wake()
	case t.held && t.stander.rests:
		t.stander.w.Wake() // to look whether whoever holds the turn comes back
	}
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

// Take returns when the caller has the turn, whoever worked, and until Give. It takes the mutex only for a moment.
func (t *Turn) Take(w *Waiter) {
	t.Lock()
	defer t.Unlock()
	t.take(w)
	t.begin(w)
}

// Try is Take for a caller that does not wait. It reports whether the caller has the turn.
func (t *Turn) Try(w *Waiter) bool {
	t.Lock()
	defer t.Unlock()
	return t.try(w)
}

func (t *Turn) try(w *Waiter) bool {
	if t.worker != nil || t.asked > 0 {
		return false
	}
	t.begin(w)
	return true
}

// Give ends Take, Try or Hold.
func (t *Turn) Give() {
	t.Lock()
	defer t.Unlock()
	if t.end(); !t.held {
		t.passOn()
	}
}

// Hold is for a goroutine that works now and then, without waiting. It reports whether the caller has the turn, until Give. From
// now on nobody else begins to work, until Free, or until nobody has worked for a tick of Stand.
func (t *Turn) Hold(w *Waiter) bool {
	t.Lock()
	defer t.Unlock()
	t.held = true
	if t.worker != nil {
		t.stander.yields = t.worker == t.stander.w
		t.Interrupt()
	}
	return t.try(w)
}

// Free ends the time of Hold. Those who sleep go on doing so for a tick, because Hold will probably come again.
func (t *Turn) Free() {
	t.Lock()
	defer t.Unlock()
	t.held = false
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
	if t.worker != nil {
		return
	}
	if t.first != nil {
		t.first.Wake()
	} else if t.stander.rests {
		t.stander.w.Wake()
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
