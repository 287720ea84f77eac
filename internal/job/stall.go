// How long a job may stand still: --timeout limits the time from one sign of
// progress to the next, so that a job that moves is not cut off however long it
// takes.

package job

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// stallWatch knows when a job last moved.
type stallWatch struct {
	began time.Time
	moved atomic.Int64 // nanoseconds from began to the last sign of progress
}

type stallWatchKey struct{}

// untilStalled makes a context that ends, with an error as its cause, once nothing
// has called Progress for limit.
func untilStalled(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	w := &stallWatch{began: time.Now()}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, stallWatchKey{}, w))
	go func() {
		for still := w.still(); still < limit; still = w.still() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(limit - still):
			}
		}
		cancel(&StallError{limit})
	}()
	return ctx, func() { cancel(nil) }
}

// StallError is why a job that stood still ends.
type StallError struct{ Limit time.Duration }

// Error returns how long the job stood still, and what to try.
func (e *StallError) Error() string {
	return fmt.Sprintf("the job made no progress for %v; try: a longer --timeout, or look at the other end", e.Limit)
}

// still is how long nothing has moved.
func (w *stallWatch) still() time.Duration {
	return time.Since(w.began) - time.Duration(w.moved.Load())
}

// Progress notes that the job with this context has moved. A Tracer notes it for every
// completion; a job that waits in another way calls Progress itself. It allocates
// nothing.
func Progress(ctx context.Context) {
	if w, ok := ctx.Value(stallWatchKey{}).(*stallWatch); ok {
		w.moved.Store(int64(time.Since(w.began)))
	}
}
