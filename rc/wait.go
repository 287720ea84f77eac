// Waiting for completions.

package rc

import (
	"context"

	"github.com/rawverbs/rawverbs/internal/sync/turn"
	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// WaitSend returns the next completion of the send queues; each goes to one caller. The error is a
// *verbs.WCError for a failed request, that of ctx, or the end of the connection: *oob.PeerError
// if the peer failed, *oob.ClosedError if it is gone, *[AsyncError] if the device failed,
// net.ErrClosed after Close.
func (c *Conn) WaitSend(ctx context.Context) (verbs.WC, error) { return c.waitOne(ctx, c.ctx, c.sends) }

// WaitRecv is WaitSend for the receive queues. The error is io.EOF when the peer has called Finish
// and no completion is left. With an SRQ, post the receive again, also after a *verbs.WCError.
func (c *Conn) WaitRecv(ctx context.Context) (verbs.WC, error) {
	return c.waitOne(ctx, c.recvOwner(), c.recvs)
}

// WaitSends waits as WaitSend does, and returns all completions there are, up to len(wcs), which
// must not be 0. Failed ones count: see [verbs.WC.Err]. If n is not 0, err is nil.
func (c *Conn) WaitSends(ctx context.Context, wcs []verbs.WC) (n int, err error) {
	return c.wait(ctx, c.ctx, c.sends, wcs)
}

// WaitRecvs is WaitSends for the receive queues; see WaitRecv.
func (c *Conn) WaitRecvs(ctx context.Context, wcs []verbs.WC) (n int, err error) {
	return c.wait(ctx, c.recvOwner(), c.recvs, wcs)
}

// Completions is for package rnet, which has all completions of its Conn handled as they come, by whichever
// of its goroutines waits. It needs Config.OneCQ.
func (c *Conn) Completions() counted { return counted{c.sends, c} }

// counted is a route whose waits Close waits for.
type counted struct {
	*dispatch.Route
	c *Conn
}

// Await is that of the route. After Close has begun it returns net.ErrClosed. The caller holds the turn's mutex.
func (r counted) Await(ctx, owner context.Context, w *turn.Waiter, ready func() bool) error {
	if !r.c.begin() {
		return errClosed
	}
	defer r.c.calls.Done()
	return r.Route.Await(ctx, owner, w, ready)
}

// recvOwner returns the context that ends waits for receives.
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
