// Waiting. One of the goroutines that wait polls for completions, and enters them into the accounts
// of its Conn and of others; see package turn. The others sleep until what they wait for has come.

package rnet

import (
	"context"
	"fmt"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/sync/turn"
	"github.com/rawverbs/rawverbs/verbs"
)

// completions is what a Conn needs of package rc's route for its completions.
type completions interface {
	Turn() *turn.Turn // its mutex guards the Conn
	Handle(take func([]verbs.WC))
	Await(ctx, owner context.Context, w *turn.Waiter, ready func() bool) error
	Sweep()
}

// waiter is a place for one waiting goroutine. Conn.turn guards it.
type waiter struct {
	*turn.Waiter
	ready func() (bool, error) // whether the wait is over; called with Conn.turn held
	over  func() bool          // ready, for turn
}

func newWaiter(ready func() (bool, error)) waiter {
	return waiter{turn.NewWaiter(), ready, func() bool {
		ok, err := ready()
		return ok || err != nil
	}}
}

// await returns when w is ready, or with the reason why the wait ended before that. The caller
// holds turn.
func (c *Conn) await(w *waiter) error {
	for {
		if ok, err := w.ready(); ok || err != nil {
			c.ensureProgress()
			return err
		}
		c.poll(w)
	}
}

// poll waits until w is ready, or the Conn fails.
func (c *Conn) poll(w *waiter) {
	if err := c.completions.Await(context.Background(), c.rc.Context(), w.Waiter, w.over); err != nil {
		c.fail(lost(err))
	}
}

// interruptAll makes all waiting goroutines look whether they are ready.
func (c *Conn) interruptAll() {
	for _, w := range c.waiters {
		c.turn.Wake(w.Waiter)
	}
}

// take enters completions into the accounts and does what follows from them.
func (c *Conn) take(wcs []verbs.WC) {
	for i := range wcs {
		c.alive.seen = true
		switch wc := &wcs[i]; {
		case wc.Status != verbs.WCSuccess:
			c.fail(&EndError{syscall.ECONNRESET, wc.Err()})
		case wc.Opcode == verbs.WCRecvRDMAWithImm:
			c.taken++
			c.receive(wc)
		default:
			c.alive.probing = false
			c.onTheWay--
		}
	}
	if c.taken >= recvBatch {
		c.repost()
	}
	c.flush()
	for _, w := range c.waiters {
		if w.Asleep() && w.over() {
			w.Wake()
		}
	}
}

// receive enters one message of the peer.
func (c *Conn) receive(wc *verbs.WC) {
	m, err := parse(wc.Imm())
	if err == nil {
		err = c.flow.arrive(m, uint64(wc.ByteLen))
	}
	switch {
	case err != nil:
		c.fail(&EndError{syscall.EPROTO, err})
		c.reset = true
	case m.rst:
		c.fail(&EndError{syscall.ECONNRESET, errors.New("the peer closed the connection without reading everything")})
	case m.control:
		c.stats.ReportsReceived++
	default:
		c.stats.MessagesReceived++
		if c.readEnded || c.closed {
			c.dropUnread()
		}
	}
}

func (c *Conn) repost() {
	for c.taken > 0 && c.err == nil {
		n := min(c.taken, recvBatch)
		if err := c.rc.QP().PostRecv(c.recvs[:n]); err != nil {
			c.fail(lost(err))
			return
		}
		c.taken -= n
	}
}

// fail sets the error of all later operations, once. Bytes that have arrived can still be read.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = err
		c.interruptAll()
	}
}

// EndError says why a Conn ended. It matches Errno with errors.Is, such as syscall.ECONNRESET if the
// peer has ended or reset the Conn, and syscall.EPROTO if the peer broke the protocol.
type EndError struct {
	Errno syscall.Errno
	Cause error // such as a *verbs.WCError
}

// Error names the errno and the cause.
func (e *EndError) Error() string { return fmt.Sprintf("%v: %v", e.Errno, e.Cause) }

// Unwrap returns Errno and Cause.
func (e *EndError) Unwrap() []error { return []error{e.Errno, e.Cause} }

// lost returns the error of a Conn whose peer, or whose device, is gone.
func lost(err error) error { return &EndError{syscall.ECONNRESET, err} }
