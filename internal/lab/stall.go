// How long a job may stand still: --timeout limits the time from one sign of
// progress to the next, so that a job that moves is not cut off however long it
// takes.

package lab

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

// untilStalled makes a context that ends, with an error as its cause, once no
// call of progress has come for limit.
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
		cancel(&stallError{limit})
	}()
	return ctx, func() { cancel(nil) }
}

// stallError is why a job that stood still ends.
type stallError struct{ limit time.Duration }

func (e *stallError) Error() string {
	return fmt.Sprintf("the job stood still for %v; try: a longer --timeout, or look at the other end", e.limit)
}

// still is how long nothing has moved.
func (w *stallWatch) still() time.Duration {
	return time.Since(w.began) - time.Duration(w.moved.Load())
}

// progress says that the job whose context this is has moved. The narrator says
// it of every completion; a job that waits in another way says it itself. It
// allocates nothing.
func progress(ctx context.Context) {
	if w, ok := ctx.Value(stallWatchKey{}).(*stallWatch); ok {
		w.moved.Store(int64(time.Since(w.began)))
	}
}
