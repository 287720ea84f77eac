// The bytes that a job has moved, for the server's metrics.

package job

import (
	"context"
	"sync/atomic"
)

type movedKey struct{}

// CountMoved returns a context whose job adds to bytes what Moved reports.
func CountMoved(ctx context.Context, bytes *atomic.Int64) context.Context {
	return context.WithValue(ctx, movedKey{}, bytes)
}

// Moved notes that the job with this context has moved bytes of its data, in either direction. A
// job calls it as often as it knows more.
func Moved(ctx context.Context, bytes int64) {
	if sum, ok := ctx.Value(movedKey{}).(*atomic.Int64); ok {
		sum.Add(bytes)
	}
}
