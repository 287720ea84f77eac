// Closing: one path for connections that worked, for those whose connecting failed, and
// for those whose Close was refused before.

package rc

import (
	stderrors "errors"
	"io"

	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
)

// owned is an object that a Conn or a Server frees.
type owned struct {
	verb, name string
	io.Closer
}

// Close moves the queue pairs to ERR and waits, for a second at most, until their work
// requests are flushed. It then frees everything, the last made first, runs Farewell and
// closes TCP. Waits that are under way end with net.ErrClosed.
//
// The program must first close the objects that it made itself in the Conn's domain or on
// its CQs. Otherwise the domain or the CQs stay open, and the error is EBUSY: close these
// objects and call Close again to free the rest. After everything is freed, Close does
// nothing.
//
// Before Dial or Connect returns, Close only makes it give up: Dial or Connect frees
// everything itself, and returns an error that matches net.ErrClosed.
func (c *Conn) Close() error {
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

// unwind frees what connecting and the program made. A later call tries again to free the
// objects that refused to close.
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

// shutRoutes ends what still waits for completions.
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
