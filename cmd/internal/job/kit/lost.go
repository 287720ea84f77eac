// Lost connections: the failures after which the job may succeed if it is done again.

package kit

import (
	"context"
	"io"
	"slices"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// The steps that the end with the first error reports to its peer, for a failure of the job, of the
// connection, and for a program that a signal stops.
const (
	stepJob     = "job"
	stepLost    = "connection lost"
	stepStopped = event.Stopped
)

// failedStep returns the step to report for err, the error of a job that ran with ctx.
func failedStep(ctx context.Context, err error) string {
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled):
		return stepStopped
	case Lost(err):
		return stepLost
	}
	return stepJob
}

// Lost reports whether err means that the connection to the peer was lost or could not be made, at
// this end or in the words of the peer: the peer or the network is gone, silent, or stopped. The job
// may succeed if it is done again. A refusal, a failure of the job, and a failure of this end's
// device are not lost connections.
func Lost(err error) bool {
	var peer *oob.PeerError
	if errors.As(err, &peer) {
		return peer.Step == stepLost || peer.Step == stepStopped
	}
	var closed *oob.ClosedError
	if errors.As(err, &closed) {
		return matches(closed.Err, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE) || unreachable(closed.Err)
	}
	var late *oob.TimeoutError
	var stalled *StallError
	if errors.As(err, &late) || errors.As(err, &stalled) {
		return true
	}
	var ended interface{ MayComeBack() bool } // such as admission.IdleError
	if errors.As(err, &ended) {
		return ended.MayComeBack()
	}
	var wc *verbs.WCError
	if errors.As(err, &wc) {
		return wc.Status == verbs.WCRetryExcErr || wc.Status == verbs.WCRNRRetryExcErr
	}
	var address *oob.AddressError
	if errors.As(err, &address) && matches(address.Err, context.DeadlineExceeded) {
		return true
	}
	return unreachable(err)
}

// unreachable reports whether the peer could not be reached, by TCP or by a device that looks for
// its address.
func unreachable(err error) bool {
	return matches(err, syscall.ECONNREFUSED, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN)
}

func matches(err error, any ...error) bool {
	return slices.ContainsFunc(any, func(one error) bool { return errors.Is(err, one) })
}

// PeerStopped reports whether err means that a signal stopped the peer. A client does not come back then.
func PeerStopped(err error) bool {
	var peer *oob.PeerError
	return errors.As(err, &peer) && peer.Step == stepStopped
}
