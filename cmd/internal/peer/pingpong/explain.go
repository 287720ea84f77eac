// Possible causes of a pingpong's failure: both ends need the same flags, and the
// exchange does not compare them.

package pingpong

import (
	"fmt"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/verbs"
)

// explain adds to an error in the message phase what to compare.
func (e *endpoint) explain(err error) error {
	var failed *verbs.WCError
	var stalled *kit.StallError
	switch {
	case errors.As(err, &failed):
		return fmt.Errorf("%s: %w; %s", e.howFar(), err, e.suspect(failed))
	case errors.As(err, &stalled):
		return errors.Errorf("%s: nothing arrived for %v; try: %s, with %s; the peer may have ended because its number of messages differs%s; or a longer --timeout",
			e.howFar(), stalled.Limit, e.sameProgram(), e.flagsToCompare(), e.lossy())
	}
	return errors.WithMessage(err, e.howFar())
}

// suspect adds to the remedies of a completion's status what to compare.
func (e *endpoint) suspect(failed *verbs.WCError) string {
	switch failed.Status {
	case verbs.WCLocLenErr, verbs.WCLocQPOpErr, verbs.WCRemInvReqErr, verbs.WCRemOpErr:
		return fmt.Sprintf("or one message size and path MTU at both ends: %s at the peer, or the peer's here (--size, --mtu)", e.flagsToCompare())
	case verbs.WCRetryExcErr:
		return fmt.Sprintf("or %s, with %s; a peer with fewer messages has ended by now", e.sameProgram(), e.flagsToCompare())
	}
	return "or the same at both ends: " + e.flagsToCompare()
}

// otherSize returns the error for a message of another length.
func (e *endpoint) otherSize(got int) error {
	return errors.Errorf("%s: the peer's message has %d bytes, but this end's have %d; try: --size %d here, or -s %d at the peer", e.howFar(), got, e.size, got, e.size)
}

func (e *endpoint) howFar() string {
	return fmt.Sprintf("after %d messages received and %d sent, of %d each", e.got, e.sent, e.iters)
}

func (e *endpoint) sameProgram() string {
	return fmt.Sprintf("the same program at both ends (%s is the peer of --job %s)", e.program, e.name)
}

// flagsToCompare returns the flags that both ends must have in common, in the peer's letters.
func (e *endpoint) flagsToCompare() string {
	flags := fmt.Sprintf("-n %d -s %d", e.iters, e.size)
	if e.qp != verbs.UD {
		flags += fmt.Sprintf(" -m %d", e.mtu)
	}
	return flags
}

// lossy names another possible cause, for types that do not resend.
func (e *endpoint) lossy() string {
	if e.qp == verbs.RC {
		return ""
	}
	return ", or a message was lost, which " + e.qp.Name() + " does not send again"
}
