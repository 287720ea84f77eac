// Package ctxwatch interrupts a blocking call when its context ends. It is for calls that
// cannot check the context themselves, such as a read.
package ctxwatch

import (
	"context"
	"sync"
	"time"
)

// Interrupter interrupts a wait. Interrupt runs in a separate goroutine, once for each
// watched context that ends. It may also run after the wait with that context is over.
type Interrupter interface{ Interrupt() }

// Watch watches one context at a time. The zero value watches no context. Watch is for one
// goroutine at a time.
//
// Registering with a context allocates, and most waits are over in microseconds. So Watch
// registers with a context only after it has watched the context for the length of patience.
// A program that makes a context per wait, to set a deadline, then pays for the context alone.
// When a context ends before that, Interrupt runs at most twice patience later.
type Watch struct {
	done <-chan struct{} // of the context, nil if none is watched

	mu      sync.Mutex
	ctx     context.Context // not registered yet, or nil
	i       Interrupter
	fresh   bool        // Set gave ctx after the last tick
	ticking bool        // timer runs
	timer   *time.Timer // nil before the first context
	stop    func() bool // ends the registration; nil without one
}

const patience = time.Millisecond

// Set watches ctx instead of the context before. When ctx ends, i is interrupted. Calls
// with the same ctx must pass the same i.
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

// tick registers with the context if the last tick saw it too.
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
		ctx, i := w.ctx, w.i
		w.stop = context.AfterFunc(ctx, func() { w.ended(ctx.Done(), i) })
		w.ctx, w.i, w.ticking = nil, nil, false
	}
}

// ended interrupts. A context that has ended may keep much memory alive by its values, so it is dropped.
func (w *Watch) ended(done <-chan struct{}, i Interrupter) {
	i.Interrupt()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done == done {
		w.forget()
	}
}

// forget drops the context. The caller holds mu.
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
