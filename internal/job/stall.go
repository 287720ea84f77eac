// The limit of a job without progress: --timeout limits the time from one sign of progress to
// the next. A job that makes progress may take any time.

package job

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// stallWatch has the time at which a job last made progress.
type stallWatch struct {
	began time.Time
	moved atomic.Int64 // nanoseconds from began to the last sign of progress
}

type stallWatchKey struct{}

// untilStalled returns a context that ends if Progress is not called for limit. Its cause is
// then a *StallError.
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

// StallError is the error of a job that made no progress for Limit.
type StallError struct{ Limit time.Duration }

// Error returns how long the job made no progress, and what to try.
func (e *StallError) Error() string {
	return fmt.Sprintf("the job made no progress for %v; try: a longer --timeout, or look at the other end", e.Limit)
}

// still returns the time since the last progress.
func (w *stallWatch) still() time.Duration {
	return time.Since(w.began) - time.Duration(w.moved.Load())
}

// Progress notes that the job with this context has made progress. A Tracer calls Progress for
// every completion; a job that waits in another way calls Progress itself. It allocates
// nothing.
func Progress(ctx context.Context) {
	if w, ok := ctx.Value(stallWatchKey{}).(*stallWatch); ok {
		w.moved.Store(int64(time.Since(w.began)))
	}
}
