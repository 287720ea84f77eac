// What both ends may still say when all is freed.

package rc

import (
	"context"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

// Farewell has f run by Close: when everything is freed and TCP alone is left, so
// that the ends can tell each other how all of it went. It runs only if Finish
// succeeded, since a failure ends the conversation; its context has the length of
// Config.Timeout, and its error becomes Close's. Both ends must know of it, for
// example by their hellos. Without one TCP is closed at once.
func (c *Conn) Farewell(f func(context.Context, *oob.Conn) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.farewell = f
}

func (c *Conn) sayFarewell() error {
	c.mu.Lock()
	f := c.farewell
	if !c.finished {
		f = nil
	}
	c.mu.Unlock()
	if f == nil {
		return nil
	}
	limit := c.cfg.Timeout
	if limit <= 0 {
		limit = oob.DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return errors.WithMessage(f(ctx, c.tcp), "farewell")
}
