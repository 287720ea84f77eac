// The reason behind a work request that failed.

package rc

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// Because gives an error that is about to be told its reason, if that is the peer's end. A
// process that is killed loses its memory regions before its queue pairs and its TCP
// connection, so that its last word can be a refusal; who reads that should look for a
// dead peer, not for a wrong rkey. If err has a *verbs.WCError which blames the peer, and TCP
// ends within a quarter of a second without the peer having said why, the result is a
// *[PeerGoneError]; else, or if ctx ends first, it is err. With a [Config.Exchange] TCP is
// not watched: then it is err at once.
func (c *Conn) Because(ctx context.Context, err error) error {
	return c.because(ctx, err, deathNotice)
}

// deathNotice is how long after a failed completion TCP may tell that the peer is gone.
const deathNotice = 250 * time.Millisecond

func (c *Conn) because(ctx context.Context, err error, limit time.Duration) error {
	var wc *verbs.WCError
	if c.cfg.Exchange != nil || !errors.As(err, &wc) || !blamesPeer(wc.Status) {
		return err
	}
	select {
	case <-c.life.Done():
	case <-ctx.Done():
	case <-time.After(limit):
	}
	var closed *oob.ClosedError
	if errors.As(context.Cause(c.life), &closed) {
		return &PeerGoneError{Closed: closed, Err: err}
	}
	return err
}

// blamesPeer tells whether a status is about the other end.
func blamesPeer(s verbs.WCStatus) bool {
	switch s {
	case verbs.WCRemAccessErr, verbs.WCRemOpErr, verbs.WCRemInvReqErr, verbs.WCRemAbortErr, verbs.WCRetryExcErr, verbs.WCRNRRetryExcErr:
		return true
	}
	return false
}
