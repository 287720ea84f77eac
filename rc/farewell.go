// Farewell: messages between the ends after everything is freed.

package rc

import (
	"context"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

// Farewell sets a function for Close to run over TCP after everything else is freed, so that
// the ends can report to each other how the run went. Close runs f only if Finish succeeded,
// because a failure ends the conversation. f's context ends after Config.Timeout, and Close
// returns f's error. Both ends must set a Farewell, and may agree on it by their hellos.
// Without one, Close closes TCP at once.
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
