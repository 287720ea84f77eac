// Explaining a failed work request by the death of the peer.

package kit

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// peerGoneError is the error of a work request that failed because the peer died.
type peerGoneError struct {
	closed *oob.ClosedError // how TCP ended, shortly after
	err    error            // the failure, which wraps a *verbs.WCError
}

func (e *peerGoneError) Error() string   { return fmt.Sprintf("%v (%v)", e.closed, e.err) }
func (e *peerGoneError) Unwrap() []error { return []error{e.closed, e.err} }

// closedWithin is the longest time from a failed completion to an end of TCP that explains the
// failure.
const closedWithin = 250 * time.Millisecond

// explain adds the death of the peer to an error that the death explains. A killed process
// loses its memory regions before its queue pairs and its TCP connection, so its last answer
// can refuse a request. That looks like a wrong rkey. life is the connection's context.
func explain(ctx, life context.Context, err error, limit time.Duration) error {
	var wc *verbs.WCError
	if !errors.As(err, &wc) || !slices.Contains(blamePeer, wc.Status) {
		return err
	}
	select {
	case <-life.Done():
	case <-ctx.Done():
	case <-time.After(limit):
	}
	var closed *oob.ClosedError
	if errors.As(context.Cause(life), &closed) {
		return &peerGoneError{closed, err}
	}
	return err
}

// blamePeer are the statuses that blame the other end.
var blamePeer = []verbs.WCStatus{
	verbs.WCRemAccessErr, verbs.WCRemOpErr, verbs.WCRemInvReqErr, verbs.WCRemAbortErr, verbs.WCRetryExcErr, verbs.WCRNRRetryExcErr,
}

// whyEnded adds the cause of ctx to the error of a net.Conn's read or write that the end of ctx has ended.
func whyEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
}
