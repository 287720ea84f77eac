// Package ctxwatch interrupts a blocking call when its context ends. It is for calls that
// cannot check the context themselves, such as a read.
package ctxwatch

import "context"

// Interrupter interrupts a wait. Interrupt runs in a separate goroutine, at most once per
// context. It may also run after the wait for that context is over.
type Interrupter interface{ Interrupt() }

// Watch watches one context at a time. Setting the same context again costs nothing and
// allocates nothing, because most programs wait with one context again and again. The
// zero value watches no context. Watch is for one goroutine at a time.
type Watch struct {
	done <-chan struct{} // the context's Done channel; nil if no context is watched
	stop func() bool
}

// Set watches ctx instead of the context before. When ctx ends, i is interrupted. Calls
// with the same ctx must pass the same i.
func (w *Watch) Set(ctx context.Context, i Interrupter) {
	if ctx.Done() == w.done {
		return
	}
	w.End()
	if w.done = ctx.Done(); w.done != nil {
		w.stop = context.AfterFunc(ctx, i.Interrupt)
	}
}

// End stops watching.
func (w *Watch) End() {
	if w.done != nil {
		w.stop()
		w.done, w.stop = nil, nil
	}
}
