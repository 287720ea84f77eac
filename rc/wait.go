// Waiting for completions, as long as there is somebody to wait for.

package rc

import (
	"context"
	"net"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// WaitSend returns the next completion of the send queues. The error is a *verbs.WCError
// for a failed work request; else the cause of ctx's end, or why the connection ended: a
// *oob.PeerError or *oob.ClosedError if the peer failed or is gone, an *[AsyncError] if
// the device did, net.ErrClosed after Close. Any number of goroutines may wait; each
// completion goes to one.
func (c *Conn) WaitSend(ctx context.Context) (verbs.WC, error) { return c.waitOne(ctx, c.sendCQ) }

// WaitRecv returns the next completion of the receive queues; see WaitSend.
func (c *Conn) WaitRecv(ctx context.Context) (verbs.WC, error) { return c.waitOne(ctx, c.recvCQ) }

// WaitSends waits as WaitSend does, and returns with all completions that there
// are, up to len(wcs), which must not be 0. It allocates what [verbs.CQ.Wait] does. If
// one of the n that it returns failed, the error is that one's *verbs.WCError: the
// first that was not merely flushed, since that is the cause.
func (c *Conn) WaitSends(ctx context.Context, wcs []verbs.WC) (n int, err error) {
	return c.wait(ctx, c.sendCQ, wcs)
}

// WaitRecvs waits for completions of the receive queues; see WaitSends.
func (c *Conn) WaitRecvs(ctx context.Context, wcs []verbs.WC) (n int, err error) {
	return c.wait(ctx, c.recvCQ, wcs)
}

func (c *Conn) waitOne(ctx context.Context, cq *verbs.CQ) (verbs.WC, error) {
	var wcs [1]verbs.WC
	_, err := c.wait(ctx, cq, wcs[:])
	return wcs[0], err
}

func (c *Conn) wait(ctx context.Context, cq *verbs.CQ, wcs []verbs.WC) (int, error) {
	if !c.begin() {
		return 0, net.ErrClosed
	}
	defer c.calls.Done()
	n, err := cq.WaitFor(ctx, wcs, verbs.WaitOptions{Owner: c.ctx, Spin: c.cfg.Spin})
	if err != nil && !errors.Is(err, net.ErrClosed) {
		n, _ = cq.Poll(wcs) // it may have come with the end
	}
	if n == 0 {
		return 0, err
	}
	return n, firstFailure(wcs[:n])
}

// firstFailure is the error of the first completion that failed by itself, or else
// of the first that was flushed because another did.
func firstFailure(wcs []verbs.WC) error {
	flushed := -1
	for i := range wcs {
		switch wcs[i].Status {
		case verbs.WCSuccess:
		case verbs.WCWRFlushErr:
			if flushed < 0 {
				flushed = i
			}
		default:
			return wcs[i].Err()
		}
	}
	if flushed < 0 {
		return nil
	}
	return wcs[flushed].Err()
}
