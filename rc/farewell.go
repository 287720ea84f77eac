// Farewell: messages between the ends after everything is freed.

package rc

import (
	"context"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

// Farewell makes Close run f over TCP after everything else is freed, if Finish succeeded. Both
// ends must set a Farewell. f's context ends after Config.Timeout. Close returns f's error.
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
