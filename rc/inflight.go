// The error of a request that goes on without its caller.

package rc

import (
	"context"
	"fmt"

	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// InFlightError is the error of a request whose wait ended before the request completed. The
// request's memory belongs to the device until Wait returns a completion, or until
// [Conn.Close] has returned. Only Wait returns that completion.
type InFlightError struct {
	ID  uint64 // of the request
	Err error  // why the wait ended; errors.Is finds it

	left *dispatch.Left
}

// Error names the request and why the wait ended.
func (e *InFlightError) Error() string {
	return fmt.Sprintf("request %d is in flight, and its memory belongs to the device: %v", e.ID, e.Err)
}

// Unwrap returns the reason.
func (e *InFlightError) Unwrap() error { return e.Err }

// Wait waits for the request's completion, and returns it, failed or not. The error is that of
// ctx's end, or net.ErrClosed after Close. Wait may run beside every method of the Conn.
func (e *InFlightError) Wait(ctx context.Context) (verbs.WC, error) { return e.left.Wait(ctx) }
