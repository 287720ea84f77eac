// The error of a request that is in flight when its wait ends.

package rc

import (
	"context"
	"fmt"
	"net"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// InFlightError is the error of a posted request whose wait ended before its completion. The
// request's memory belongs to the device until Wait returns a completion or [Conn.Close] has
// returned.
type InFlightError struct {
	ID  uint64 // of the request
	Err error  // why the wait ended; errors.Is finds it

	opcode verbs.Opcode // 0 for a receive
	left   *dispatch.Left
}

// inFlight makes the error of a request, a receive if wr is nil. It does not read the dispatcher's
// request, because that may be in use again.
func inFlight(wr *verbs.SendWR, left *dispatch.Left, err error) *InFlightError {
	e := &InFlightError{Err: err, left: left}
	if wr != nil {
		e.ID, e.opcode = wr.ID, wr.Opcode
	}
	return e
}

// Error names the request, the owner of its memory and the reason.
func (e *InFlightError) Error() string {
	name := "receive"
	if e.opcode != 0 {
		name = e.opcode.String()
	}
	return fmt.Sprintf("%s %d is in flight, and its memory belongs to the device until InFlightError.Wait returns: %v", name, e.ID, e.Err)
}

// Unwrap returns Err.
func (e *InFlightError) Unwrap() error { return e.Err }

// Wait returns the completion of the request, failed or not; no other call gets it. The error is
// that of ctx, or net.ErrClosed after Close. Wait may run at the same time as every
// method of the Conn.
func (e *InFlightError) Wait(ctx context.Context) (verbs.WC, error) {
	wc, err := e.left.Wait(ctx)
	if errors.Is(err, net.ErrClosed) {
		err = errClosed
	}
	return wc, err
}
