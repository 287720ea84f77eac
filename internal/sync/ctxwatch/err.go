package ctxwatch

import (
	"context"

	"github.com/pkg/errors"
)

// Err returns why ctx has ended. To errors.Is the error is both ctx.Err() and the context's
// cause, whose text it has. It allocates only if the two are unrelated.
func Err(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return &ended{err, cause}
}

// ended is the end of a context with a cause that does not say that it is one.
type ended struct{ err, cause error }

func (e *ended) Error() string { return e.cause.Error() }

func (e *ended) Unwrap() []error { return []error{e.cause, e.err} }
