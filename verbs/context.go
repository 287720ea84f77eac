// Contexts for calls that block in the kernel.

package verbs

import (
	"context"

	"github.com/rawverbs/rawverbs/internal/sync/ctxwatch"
)

// within runs call and returns when call returns or ctx ends. The kernel cannot be interrupted. If
// ctx ends first, call continues in another goroutine, and that goroutine passes its result to late.
func within[T any](ctx context.Context, call func() (T, error), late func(T)) (made T, err error) {
	if ctx.Done() == nil {
		return call()
	}
	type result struct {
		made T
		err  error
	}
	came := make(chan result, 1)
	go func() {
		var r result
		r.made, r.err = call()
		came <- r
	}()
	select {
	case r := <-came:
		return r.made, r.err
	case <-ctx.Done():
	}
	go func() {
		if r := <-came; r.err == nil {
			late(r.made)
		}
	}()
	return made, ctxwatch.Err(ctx)
}
