// The experiment --leave-early of the jobs exchange-write and exchange-read. It shows what a
// flushed work request means, and what it does not mean.
//
// A learner's client printed this, and stopped there:
//
//	send completed successfully.
//	wc->status = 5 (Work Request Flushed Error)
//	disconnected.
//
// The learner believed that status 5 was the failure. That was wrong. The server's program had
// been changed: it left when it had the client's message, one completion before the end. No
// peer was left to fill the client's receive, which was posted for the answer. When the queue
// pair went to ERR, the receive was flushed. A flush is never the cause: it shows that the
// queue pair was already in ERR. The cause is what moved the queue pair to ERR. That is the
// request of the first completion whose status is neither 0 nor 5. If no completion has such a
// status, as here, a call moved the queue pair.
//
// With --leave-early the server does everything but the last step. It receives the client's
// MSG_DONE, does not send its own, moves its queue pair to ERR, and reports over TCP that it
// has disconnected. The client's queue pair stays in RTS, because a queue pair does not notice
// that the peer has disconnected. With librdmacm, rdma_disconnect sends a message of its own,
// and librdmacm moves the client's queue pair. Here the client's program reads the report from
// TCP and moves the queue pair itself. Then its last receive completes with status 5.
//
// Before the server leaves, the client reports to it that MSG_DONE is acknowledged. Otherwise
// the acknowledgement could be lost with the server's queue pair, and the SEND would be flushed
// too. That happens in practice, but it would show two things at once.
//
// Both ends exit with status 0 if exactly that happened: one receive was flushed, the one for
// MSG_DONE, and everything before it succeeded. Anything else is an error, even a run in which
// MSG_DONE arrives. Without --leave-early, TCP reports that the server died before any request
// is flushed.

package exchange

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// The notes that the ends send each other over TCP.
const (
	noteAwaitsDone   = "awaiting MSG_DONE" // the client: all that it sent is acknowledged
	noteDisconnected = "disconnected"      // the server: its queue pair is in ERR
)

// leaveEarly is the server's part.
func (e *endpoint) leaveEarly(ctx context.Context, c *rc.Conn) error {
	if _, err := c.TCP().RecvNote(ctx, noteAwaitsDone); err != nil {
		return err
	}
	event.LeaveEarly.Log(e.Logger, "--leave-early: this end has the client's MSG_DONE and leaves without sending its own, one completion before the end",
		slog.String("send", e.states.send.String()), slog.String("receive", e.states.recv.String()))
	if err := c.Disconnect(); err != nil {
		return err
	}
	if err := c.TCP().SendNote(ctx, oob.Note{Name: noteDisconnected}); err != nil {
		return err
	}
	e.explain("This end's queue pair is in ERR. Its queues were empty, so nothing is flushed here.",
		"The client's queue pair stays in RTS until its program moves it. Its receive waits for a MSG_DONE that will not come.")
	return nil
}

// awaitLeave is the client's part, from SS_DONE_SENT on.
func (e *endpoint) awaitLeave(ctx context.Context, c *rc.Conn, next func() (verbs.WC, error)) error {
	if err := c.TCP().SendNote(ctx, oob.Note{Name: noteAwaitsDone}); err != nil {
		return err
	}
	if _, err := c.TCP().RecvNote(ctx, noteDisconnected); err != nil {
		return err
	}
	event.PeerDisconnected.Log(e.Logger, "the server says by TCP that it has disconnected; this queue pair is still in RTS, and its receive for MSG_DONE is posted",
		slog.String("send", e.states.send.String()), slog.String("receive", e.states.recv.String()))
	if err := c.Disconnect(); err != nil {
		return err
	}
	wc, err := next()
	if errors.Is(err, io.EOF) { // the server has finished, and the wait ended before Disconnect
		wc, err = e.WaitRecv(ctx, c, "the flushed receive")
	}
	if err != nil && !kit.Flushed(err) {
		return err
	}
	if err == nil || wc.ID != idRecvDone || e.states.recv != rsMRRecv {
		return errors.Errorf("the server should have left before MSG_DONE, so that the receive %d is flushed in %v; instead, in %v: request %d, status %v; try: a server of this program's version",
			idRecvDone, rsMRRecv, e.states.recv, wc.ID, wc.Status)
	}
	e.explain(fmt.Sprintf("Flushed: work request %d, the receive for MSG_DONE. Status 5, IBV_WC_WR_FLUSH_ERR; all work requests before it completed with 0.", wc.ID),
		"A flush is a consequence, never a cause: the queue pair went to ERR and returned the requests that were still queued.",
		"No completion shows the cause, because no request failed. The first cause: the server left after it got the client's MSG_DONE, one completion early.",
		"It reported that over TCP, and this program moved the queue pair to ERR. librdmacm does that by itself, so there the flush is the first thing that a program sees.",
		fmt.Sprintf("Without MSG_DONE this end does not know whether its region holds the server's whole text, or whether the server has read the client's text: receive state %v.", e.states.recv),
		"Without --leave-early the same receive completes with status 0 and contains MSG_DONE, and both state machines reach their last state.")
	return nil
}

func (e *endpoint) explain(lines ...string) {
	for _, line := range lines {
		event.LabExplained.Log(e.Logger, line)
	}
}
