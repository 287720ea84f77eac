// The end of a Conn, and the probes that find a peer that is gone.

package rnet

import (
	"net"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

// resetLimit limits how long Close waits for the peer's device to acknowledge an RST.
const resetLimit = time.Second

// Close ends both directions. It waits until the peer's device has received what was written, for as
// long as SetLinger says; without that wait, the end of the process would lose it. It does not wait for the
// peer's program: what does not fit into the peer's ring goes there in the background, as long as the
// process runs. If bytes of the peer are unread, the peer gets ECONNRESET, as with TCP, and Close returns
// at once. Pending operations return net.ErrClosed.
func (c *Conn) Close() error {
	if c == nil || c.rc == nil {
		return syscall.EINVAL // as package net
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.completions.Sweep()
	c.closed = true
	c.readDeadline.stop()
	c.writeDeadline.stop()
	c.alive.stop()
	limit := c.linger
	if c.flow.arrived > c.flow.consumed+c.lent || limit == 0 {
		c.reset = true
		limit = resetLimit
	}
	c.wantFIN = true
	c.flush()
	c.interruptAll()
	timer := time.AfterFunc(limit, func() {
		c.turn.Lock()
		defer c.turn.Unlock()
		c.late = true
		c.turn.Wake(c.closer.Waiter)
	})
	if !c.reset {
		_ = c.await(&c.closer) // an error means that the peer is gone
	}
	c.toTheEnd = true
	go c.finish(timer)
	return nil
}

// SetLinger sets what Close does with bytes that the peer's device has not received: sec < 0, the
// default, sends them for at most Config.Linger; 0 drops them, and the peer gets ECONNRESET; sec > 0
// sends them for at most sec seconds.
func (c *Conn) SetLinger(sec int) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	c.linger = time.Duration(sec) * time.Second
	if sec < 0 {
		c.linger = c.cfg.Linger
	}
	return nil
}

// finish waits until the peer's device has received everything or the timer has fired, and frees the Conn.
func (c *Conn) finish(timer *time.Timer) {
	c.turn.Lock()
	_ = c.await(&c.closer)
	c.turn.Unlock()
	timer.Stop()
	_ = c.rc.Close() // nobody is left to whom its error could be reported; the Logger has it
	c.free()
	c.announce(StateClosed)
	close(c.ended)
}

// closeReady reports whether all that can be sent is received. Each completion makes room for more, so
// what is left when nothing is on its way waits for the peer's program.
func (c *Conn) closeReady() (bool, error) {
	sent := c.sentFIN || c.sentRST || !c.toTheEnd
	return c.late || sent && c.onTheWay == 0, c.err
}

// keepAlive is the state of the probes. A probe is a WRITE of 0 bytes: the peer's device
// acknowledges it, and the peer's program does not notice. Conn.turn guards it.
type keepAlive struct {
	timer   *time.Timer // nil: no probes
	seen    bool        // something has completed since the last tick
	sent    int         // number of probes
	probing bool        // a probe or another request is on its way, and the progress goroutine waits for it
}

// keepAlive starts the timer, unless Config.KeepAlive forbids it.
func (c *Conn) keepAlive() {
	if c.cfg.KeepAlive > 0 {
		c.alive.timer = time.AfterFunc(c.cfg.KeepAlive, c.tick)
	}
}

// tick has the progress goroutine wait for a completion if there was none since the last tick: that of a request
// which is on its way, or that of a probe.
func (c *Conn) tick() {
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.closed || c.err != nil {
		return
	}
	if !c.alive.seen {
		c.alive.probing = true
		if c.onTheWay == 0 {
			c.wrs[0] = verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: c.peer.Addr, RKey: c.peer.RKey}
			c.alive.sent++
			c.post(1)
		}
		c.ensureProgress()
	}
	c.alive.seen = false
	c.alive.timer.Reset(c.cfg.KeepAlive)
}

func (k *keepAlive) stop() {
	if k.timer != nil {
		k.timer.Stop()
	}
}
