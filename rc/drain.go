// Draining: flushing the queues, so that nothing uses the objects when they are freed.

package rc

import (
	"context"
	stderrors "errors"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// drainLimit limits a flush; after that time the objects are freed in any case. A queue that is too
// full for a mark counts as flushed when nothing has come for drainQuiet. The peer's failure waits as
// long for completions that explain it.
const (
	drainLimit = time.Second
	drainQuiet = 50 * time.Millisecond
)

// Disconnect moves the queue pairs to ERR before Close, so that the waits return each queued work
// request, with IBV_WC_WR_FLUSH_ERR. The peer's queue pairs stay in RTS. After Close the error is
// net.ErrClosed.
func (c *Conn) Disconnect() error {
	if !c.begin() {
		return errClosed
	}
	defer c.calls.Done()
	c.flushing.Store(true)
	return c.moveToErr()
}

// moveToErr moves the queue pairs to ERR, once. Queue pairs in RESET have nothing to flush.
func (c *Conn) moveToErr() error {
	c.moves.Lock()
	defer c.moves.Unlock()
	if c.triedErr {
		return c.moveErr
	}
	c.triedErr = true
	for _, p := range c.pairs {
		if p.machine.State() != qpstate.Reset {
			c.inErr = append(c.inErr, p)
		}
	}
	var errs []error
	for _, p := range c.inErr {
		errs = append(errs, p.machine.ToError())
	}
	c.moveErr = stderrors.Join(errs...)
	return c.moveErr
}

// drain flushes the queues of all queue pairs. In ERR the device completes every work request, in
// order, so a mark behind the last request of a queue shows when all are flushed. The marks are
// posted after the move, because one posted before it would be sent, or take a message of the peer.
func (c *Conn) drain() error {
	err := c.moveToErr()
	if len(c.inErr) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	if err == nil {
		err = c.flushAll(ctx)
	}
	return stderrors.Join(err, c.returnUnread(ctx))
}

// flushAll flushes the queues of the queue pairs in ERR, and logs how much was flushed.
func (c *Conn) flushAll(ctx context.Context) error {
	sendMarks, recvMarks, recvQueues := 0, 0, len(c.inErr)
	if c.srq != nil { // its receives belong to no queue pair and are not flushed
		recvQueues = 0
	}
	for _, p := range c.inErr {
		if p.PostSend([]verbs.SendWR{{ID: c.markID, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: p.ah}}) == nil {
			sendMarks++
		}
		if c.srq == nil && p.PostRecv([]verbs.RecvWR{{ID: c.markID}}) == nil && p.noticeRecv() == nil {
			recvMarks++
		}
	}
	if c.cfg.OneCQ {
		flushed, err := c.flush(ctx, c.sends, sendMarks+recvMarks, len(c.inErr)+recvQueues)
		if err != nil {
			return errors.WithMessage(err, "drain the queues")
		}
		c.events.drained(flushed)
		return nil
	}
	sends, err := c.flush(ctx, c.sends, sendMarks, len(c.inErr))
	if err != nil {
		return errors.WithMessage(err, "drain the send queue")
	}
	recvs, err := c.flush(ctx, c.recvs, recvMarks, recvQueues)
	if err != nil {
		return errors.WithMessage(err, "drain the receive queue")
	}
	c.events.drained(sends + recvs)
	return nil
}

// noticeRecv has the device flush a receive that was posted in ERR. rdma_rxe looks at its receive
// queue only when something else happens to the queue pair, such as a move from ERR to ERR.
func (p *queuePair) noticeRecv() error {
	return p.Modify(&qpstate.Attr{State: qpstate.Error}, qpstate.MaskState)
}

// flush reads until all marks have come, and returns how many work requests were flushed. If a queue
// has no mark, flush reads until nothing has come for drainQuiet. If a program that polls the
// CQ itself took a mark, ctx ends the flush.
func (c *Conn) flush(ctx context.Context, r *dispatch.Route, marks, queues int) (flushed int, err error) {
	r.Handle(nil)
	unmarked := marks < queues
	var wcs [16]verbs.WC
	for marks > 0 || unmarked {
		n, err := waitQuiet(ctx, r, wcs[:], unmarked)
		if errors.Is(err, context.DeadlineExceeded) {
			return flushed, nil
		}
		if err != nil {
			return flushed, err
		}
		for _, wc := range wcs[:n] {
			if wc.ID == c.markID {
				marks--
				continue
			}
			if wc.Status == verbs.WCWRFlushErr {
				flushed++
			}
			if r == c.recvs && c.mayBeReceive(wc) {
				c.unread(wc)
			}
		}
	}
	return flushed, nil
}

// mayBeReceive reports whether a completion of the receive CQ can belong to a receive. With one CQ
// the opcode decides, but the opcode of a failed completion is not valid.
func (c *Conn) mayBeReceive(wc verbs.WC) bool {
	return !c.cfg.OneCQ || wc.Status != verbs.WCSuccess || wc.Opcode&verbs.WCRecv != 0
}

// returnUnread passes to Unread the SRQ's receives that this Conn completed and nobody read.
func (c *Conn) returnUnread(ctx context.Context) error {
	if !c.wantsUnread() {
		return nil
	}
	_, err := c.flush(ctx, c.recvs, 0, 1)
	return err
}

func (c *Conn) wantsUnread() bool {
	return c.server != nil && c.srq != nil && c.server.conf.Unread != nil
}

func (c *Conn) unread(wc verbs.WC) {
	if c.wantsUnread() {
		c.server.conf.Unread(wc)
	}
}

// waitQuiet waits for completions. If the queue has no mark, it waits for drainQuiet at most.
func waitQuiet(ctx context.Context, r *dispatch.Route, wcs []verbs.WC, unmarked bool) (int, error) {
	if unmarked {
		quiet, cancel := context.WithTimeout(ctx, drainQuiet)
		defer cancel()
		ctx = quiet
	}
	return r.Read(ctx, context.Background(), wcs)
}
