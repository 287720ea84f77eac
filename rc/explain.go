// Explaining a failed work request by the death of the peer.

package rc

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// ExplainFailure returns err, wrapped in a *[PeerGoneError] if the peer is gone and that explains err.
// A killed process loses its memory regions before its queue pairs and its TCP connection.
// Its last answer can therefore refuse a request, which looks like a wrong rkey. The wrap
// needs a *verbs.WCError in err that blames the peer, and a TCP connection that ends within
// a quarter of a second without a reason from the peer. In every other case, and when ctx
// ends first, the result is err. With a [Config.Exchange] nothing watches TCP, and the
// result is err at once.
func (c *Conn) ExplainFailure(ctx context.Context, err error) error {
	return c.explainWithin(ctx, err, closedWithin)
}

// closedWithin is how long after a failed completion the end of TCP still explains it.
const closedWithin = 250 * time.Millisecond

func (c *Conn) explainWithin(ctx context.Context, err error, limit time.Duration) error {
	var wc *verbs.WCError
	if c.cfg.Exchange != nil || !errors.As(err, &wc) || !blamesPeer(wc.Status) {
		return err
	}
	select {
	case <-c.ctx.Done():
	case <-ctx.Done():
	case <-time.After(limit):
	}
	var closed *oob.ClosedError
	if errors.As(context.Cause(c.ctx), &closed) {
		return &PeerGoneError{Closed: closed, Err: err}
	}
	return err
}

// blamesPeer reports whether a status blames the other end.
func blamesPeer(s verbs.WCStatus) bool {
	switch s {
	case verbs.WCRemAccessErr, verbs.WCRemOpErr, verbs.WCRemInvReqErr, verbs.WCRemAbortErr, verbs.WCRetryExcErr, verbs.WCRNRRetryExcErr:
		return true
	}
	return false
}
