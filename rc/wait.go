// Waiting for completions, as long as there is somebody to wait for.

package rc

import (
	"context"

	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// WaitSend returns the next completion of the send queues. The error is a *verbs.WCError
// for a failed work request; else the cause of ctx's end, or why the connection ended: a
// *oob.PeerError or *oob.ClosedError if the peer failed or is gone, an *[AsyncError] if
// the device did, net.ErrClosed after Close. Any number of goroutines may wait; each
// completion goes to one.
func (c *Conn) WaitSend(ctx context.Context) (verbs.WC, error) { return c.waitOne(ctx, c.ctx, c.sends) }

// WaitRecv returns the next completion of the receive queues; see WaitSend. With an SRQ the
// program posts the receive again, also after a *verbs.WCError. When the peer has
// reached the barrier "done" (see Finish) and no completion is left, the error is io.EOF. A
// peer that is gone without Finish is an *oob.ClosedError, which does not match io.EOF.
func (c *Conn) WaitRecv(ctx context.Context) (verbs.WC, error) {
	return c.waitOne(ctx, c.recvOwner(), c.recvs)
}

// WaitSends waits as WaitSend does, and returns with all completions that there are, up to
// len(wcs), which must not be 0. A failed one is a completion, too: see [verbs.WC.Err]. So
// err is nil if n is not 0. WaitSends allocates what [verbs.CQ.Wait] does.
func (c *Conn) WaitSends(ctx context.Context, wcs []verbs.WC) (n int, err error) {
	return c.wait(ctx, c.ctx, c.sends, wcs)
}

// WaitRecvs waits for completions of the receive queues; see WaitSends.
func (c *Conn) WaitRecvs(ctx context.Context, wcs []verbs.WC) (n int, err error) {
	return c.wait(ctx, c.recvOwner(), c.recvs, wcs)
}

// recvOwner is the context that ends the waits for receives.
func (c *Conn) recvOwner() context.Context {
	if c.flushing.Load() {
		return c.ctx
	}
	return c.recvCtx
}

func (c *Conn) waitOne(ctx, owner context.Context, r *dispatch.Route) (verbs.WC, error) {
	var wcs [1]verbs.WC
	if _, err := c.wait(ctx, owner, r, wcs[:]); err != nil {
		return verbs.WC{}, err
	}
	return wcs[0], wcs[0].Err()
}

func (c *Conn) wait(ctx, owner context.Context, r *dispatch.Route, wcs []verbs.WC) (int, error) {
	if !c.begin() {
		return 0, errClosed
	}
	defer c.calls.Done()
	return r.Read(ctx, owner, wcs)
}
