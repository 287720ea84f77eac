// Closing: one path for connections that worked, for those whose connecting failed, and
// for those whose Close was refused before.

package rc

import (
	stderrors "errors"
	"io"
	"net"
	"slices"
)

// owned is an object that the Conn frees.
type owned struct {
	verb, name string
	io.Closer
}

// own sees to it that Close frees object.
func (c *Conn) own(verb, name string, object io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owned = append(c.owned, owned{verb, name, object})
}

// Close moves the queue pairs to ERR, waits, for a second at most, until their work
// requests are flushed, frees everything, the last made first, says Farewell and closes
// TCP. Waits that are under way end with net.ErrClosed.
//
// What the program made itself in the Conn's domain or on its CQs is to be closed before:
// else these stay, and the error is EBUSY. Close them and call Close again: it frees what
// was left. When nothing is left Close does nothing.
//
// While Dial or Connect has yet to return, Close only tells it to give up: it then frees
// everything itself, and returns an error that matches net.ErrClosed.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closing = true
	connecting := c.connecting
	c.mu.Unlock()
	c.cancel(net.ErrClosed)
	if connecting {
		return nil
	}
	return c.unwind()
}

// unwind undoes what connecting and the program did; later calls do what is left of it.
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
		c.telling.Wait()
		errs = append(errs, c.drain())
	}
	errs = append(errs, c.free()...)
	if first {
		errs = append(errs, c.sayFarewell(), c.tcp.Close())
	}
	return stderrors.Join(errs...)
}

// free closes the objects, the last made first, and keeps those that refuse.
func (c *Conn) free() (errs []error) {
	c.mu.Lock()
	objects := c.owned
	c.owned = nil
	c.mu.Unlock()
	var stay []owned
	for _, object := range slices.Backward(objects) {
		if err := object.Close(); err != nil {
			errs = append(errs, err)
			stay = append(stay, object)
			continue
		}
		c.events.freed(object.verb, object.name)
	}
	slices.Reverse(stay)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owned = stay
	return errs
}
