// Waiting. Of all goroutines that wait on a Conn one leads: it waits for completions and enters them
// into the accounts. The others, the followers, sleep until the leader wakes them. A deadline or Close
// ends the leader's wait by the epoch, a context that is made anew only then.

package rnet

import (
	"context"
	"fmt"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// waiter is a place for one waiting goroutine. Conn.mu guards it.
type waiter struct {
	ready  func() (bool, error) // whether the wait is over; called with Conn.mu held
	asleep bool                 // a follower sleeps here
	wake   chan struct{}        // holds at most one wake-up
}

func (w *waiter) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// sleep waits as a follower. The caller holds mu.
func (c *Conn) sleep(w *waiter) {
	w.asleep = true
	c.mu.Unlock()
	<-w.wake
	c.mu.Lock()
	w.asleep = false
}

// await returns when w is ready, or with the reason why the wait ended before that. The caller
// holds mu.
func (c *Conn) await(w *waiter) error {
	for {
		if ok, err := w.ready(); ok || err != nil {
			c.passOn()
			return err
		}
		if c.leader != nil {
			c.sleep(w)
		} else {
			c.lead(w)
		}
	}
}

// lead waits for completions once, enters them, and wakes the followers that are ready. The caller
// holds mu.
func (c *Conn) lead(w *waiter) {
	c.leader = w
	epoch := c.epoch
	c.mu.Unlock()
	n, err := c.rc.WaitSends(epoch, c.wcs[:]) // not WaitRecvs, which also ends when the peer calls Finish
	c.mu.Lock()
	c.leader = nil
	c.take(c.wcs[:n])
	if epoch.Err() != nil {
		c.newEpoch()
	} else if err != nil {
		c.fail(lost(err))
	}
	for _, f := range c.waiters {
		if f == w || !f.asleep {
			continue
		}
		if ok, err := f.ready(); ok || err != nil {
			f.wakeUp()
		}
	}
}

// passOn wakes a follower to lead, if nobody leads.
func (c *Conn) passOn() {
	if c.leader != nil {
		return
	}
	if f := c.follower(); f != nil {
		f.wakeUp()
		return
	}
	c.tend()
}

// follower returns a follower that can lead, or nil.
func (c *Conn) follower() *waiter {
	for _, w := range c.waiters {
		if w.asleep {
			return w
		}
	}
	return nil
}

func (c *Conn) newEpoch() {
	c.epoch, c.endEpoch = context.WithCancel(context.Background())
}

// interrupt makes a waiting goroutine look again whether it is ready. The caller holds mu.
func (c *Conn) interrupt(w *waiter) {
	if c.leader == w {
		c.endEpoch()
	}
	w.wakeUp()
}

// interruptAll interrupts all waiting goroutines.
func (c *Conn) interruptAll() {
	c.endEpoch()
	for _, w := range c.waiters {
		w.wakeUp()
	}
	c.tender.wakeUp()
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
