// Package ctxwatch has the end of a context interrupt something that waits where it
// cannot look at the context, such as in a read.
package ctxwatch

import (
	"context"
	"sync"
	"time"
)

// Interrupter is what waits. Interrupt is called by a goroutine of its own, once for each
// context that ended, perhaps also when nobody waits for that context any more.
type Interrupter interface{ Interrupt() }

// Watch watches one context at a time. The zero value watches none. It is used by one
// goroutine at a time.
//
// Registering with a context allocates, and most waits are over in microseconds. So a context
// is registered with only once it was watched for patience. Programs that make a context per
// wait, to give it a deadline, then pay for the context alone. A context that ends before it is
// registered with interrupts at most twice patience later.
type Watch struct {
	done <-chan struct{} // of the context, nil if none is watched

	mu      sync.Mutex
	ctx     context.Context // still to be registered with, or nil
	i       Interrupter
	fresh   bool        // ctx was set since the last tick
	ticking bool        // timer runs
	timer   *time.Timer // nil before the first context
	stop    func() bool // ends the registration, nil if there is none
}

const patience = time.Millisecond

// Set watches ctx from now on, and no other. With the same context i must be the same.
func (w *Watch) Set(ctx context.Context, i Interrupter) {
	if ctx.Done() == w.done {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget()
	if w.done = ctx.Done(); w.done == nil {
		return
	}
	w.ctx, w.i, w.fresh = ctx, i, true
	switch {
	case w.timer == nil:
		w.timer = time.AfterFunc(patience, w.tick)
	case !w.ticking:
		w.timer.Reset(patience)
	}
	w.ticking = true
}

// tick registers with a context that has been watched since the last tick.
func (w *Watch) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ctx == nil:
		w.ticking = false
	case w.fresh:
		w.fresh = false
		w.timer.Reset(patience)
	default:
		w.stop = context.AfterFunc(w.ctx, w.i.Interrupt)
		w.ctx, w.i, w.ticking = nil, nil, false
	}
}

// forget ends the registration, or the waiting for it. The caller holds mu.
func (w *Watch) forget() {
	if w.stop != nil {
		w.stop()
	}
	w.ctx, w.i, w.stop = nil, nil, nil
}

// End watches none.
func (w *Watch) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget()
	w.done = nil
}
