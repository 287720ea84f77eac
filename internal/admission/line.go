// The line of newcomers that wait for a place. Its length has a limit, and no address can fill it: when it is
// full, a newcomer takes the waiting place of an address that has more.

package admission

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// queue gives a client its place, or lets it wait. The error says why it may not wait.
func (ac *Controller) queue(c *Client) error {
	ac.mu.Lock()
	defer ac.mu.Unlock()
	c.phase, c.turn = waiting, make(chan struct{})
	ac.line = append(ac.line, c)
	ac.grant()
	if c.phase != waiting {
		return nil
	}
	if short := ac.shortage(c); short[0].never() || len(ac.line) > ac.limits.Waiting && !ac.makeWay(c) {
		ac.dismiss(c)
		return short[0]
	}
	ac.attend()
	return nil
}

// await waits until a client has its place.
func (c *Client) await() error {
	late := time.NewTimer(c.controller.limits.Patience)
	defer late.Stop()
	var err error
	select {
	case <-c.turn:
	case <-late.C:
	case <-c.gone:
		err = c.why()
	case <-c.ctx.Done():
		err = context.Cause(c.ctx)
	}
	ac := c.controller
	ac.mu.Lock()
	defer ac.mu.Unlock()
	if c.phase == connecting {
		return nil
	}
	if c.phase == waiting {
		ac.dismiss(c)
	}
	if err != nil {
		return err
	}
	if short := ac.shortage(c); short != nil {
		return short[0]
	}
	return &FullError{What: Places, Used: int64(ac.all.clients), Limit: int64(ac.limits.Clients)}
}

// dismiss makes a client leave the line without a place. The lock is held.
func (ac *Controller) dismiss(c *Client) {
	ac.line = without(ac.line, c)
	ac.release(c)
	c.phase = greeted
	close(c.turn)
}

// makeWay makes the newest client of the address that waits most often leave the line, unless that would not
// make the line fairer for the newcomer. The lock is held.
func (ac *Controller) makeWay(newcomer *Client) bool {
	by, most := count(ac.line)
	if by[most] <= by[newcomer.from] {
		return false
	}
	for _, c := range slices.Backward(ac.line) {
		if c.from == most {
			ac.dismiss(c)
			break
		}
	}
	return true
}

// attend gives the clients in the line their places, and ends clients for those that still wait. The lock is held.
func (ac *Controller) attend() {
	ac.grant()
	if ac.look != nil {
		ac.look.Stop()
		ac.look = nil
	}
	if again := ac.makeRoom(); again > 0 {
		ac.look = time.AfterFunc(again, func() {
			ac.mu.Lock()
			defer ac.mu.Unlock()
			ac.attend()
		})
	}
}

// grant gives places to the clients for which there are some. The lock is held.
func (ac *Controller) grant() {
	for {
		next := -1
		for i, c := range ac.line {
			if ac.fits(c) && (next < 0 || ac.compare(c, ac.line[next]) < 0) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		c := ac.line[next]
		ac.line = slices.Delete(ac.line, next, next+1)
		ac.take(c)
		close(c.turn)
	}
}

// compare orders the clients in the line: the address with fewer that connect is first. The lock is held.
func (ac *Controller) compare(x, y *Client) int {
	return ac.by[x.from].connecting - ac.by[y.from].connecting
}

// firsts returns the client of each address that is next, in the order of compare. The lock is held.
func (ac *Controller) firsts() (next []*Client) {
	seen := make(map[netip.Addr]bool)
	for _, c := range ac.line {
		if !seen[c.from] {
			seen[c.from] = true
			next = append(next, c)
		}
	}
	slices.SortStableFunc(next, ac.compare)
	return next
}
