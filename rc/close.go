// Closing a connection, also one that failed, or one whose Close failed before.

package rc

import (
	stderrors "errors"

	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
)

// Close moves the queue pairs to ERR, waits up to a second for their work requests to be flushed,
// frees everything, runs Farewell and closes TCP. Waits return net.ErrClosed. The error is EBUSY if
// the program left objects of its own in the domain or on the CQs: close these and call Close
// again. During Dial or Connect, Close makes the call fail and free everything.
func (c *Conn) Close() error {
	if c == nil || c.cancel == nil {
		return nil
	}
	c.mu.Lock()
	c.closing = true
	connecting := c.connecting
	c.mu.Unlock()
	c.cancel(errClosed)
	if connecting {
		return nil
	}
	return c.unwind()
}

// unwind frees all objects. A later call tries again to free those that refused to close.
func (c *Conn) unwind() error {
	c.unwinding.Lock()
	defer c.unwinding.Unlock()
	first := !c.unwound
	c.unwound = true
	var errs []error
	if first {
		c.stopTCP()
		c.stopEvents()
		c.calls.Wait()
		c.logging.Wait()
		errs = append(errs, c.drain())
	}
	errs = append(errs, c.free()...)
	if first {
		c.shutRoutes()
		c.endRecvs(errClosed)
		errs = append(errs, c.sayFarewell(), c.tcp.Close())
	}
	return stderrors.Join(errs...)
}

// shutRoutes ends the waits for completions that will not come.
func (c *Conn) shutRoutes() {
	for _, r := range []*dispatch.Route{c.sends, c.recvs} {
		if r == nil {
			continue
		}
		r.Shut()
		for _, p := range c.pairs {
			r.Release(p.QPN())
		}
	}
}
