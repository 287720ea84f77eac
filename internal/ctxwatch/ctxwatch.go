// Package ctxwatch has the end of a context interrupt something that waits where it
// cannot look at the context, such as in a read.
package ctxwatch

import "context"

// Interrupter is what waits. Interrupt is called by a goroutine of its own, once for each
// context that ended, perhaps also when nobody waits for that context any more.
type Interrupter interface{ Interrupt() }

// Watch watches one context at a time. Programs mostly wait with the same context again and
// again: it is then watched once, and nothing is allocated. The zero value watches none. It
// is used by one goroutine at a time.
type Watch struct {
	done <-chan struct{} // of the context, nil if none is watched
	stop func() bool
}

// Set watches ctx from now on, and no other. With the same context i must be the same.
func (w *Watch) Set(ctx context.Context, i Interrupter) {
	if ctx.Done() == w.done {
		return
	}
	w.End()
	if w.done = ctx.Done(); w.done != nil {
		w.stop = context.AfterFunc(ctx, i.Interrupt)
	}
}

// End watches none.
func (w *Watch) End() {
	if w.done != nil {
		w.stop()
		w.done, w.stop = nil, nil
	}
}
