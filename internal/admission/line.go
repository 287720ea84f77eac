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
func (d *Desk) queue(c *Client) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.phase, c.turn = waiting, make(chan struct{})
	d.line = append(d.line, c)
	d.grant()
	if c.phase != waiting {
		return nil
	}
	if short := d.shortage(c); short[0].never() || len(d.line) > d.limits.Waiting && !d.makeWay(c) {
		d.dismiss(c)
		return short[0]
	}
	d.attend()
	return nil
}

// await waits until a client has its place.
func (c *Client) await() error {
	late := time.NewTimer(c.desk.limits.Patience)
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
	d := c.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.phase == connecting {
		return nil
	}
	if c.phase == waiting {
		d.dismiss(c)
	}
	if err != nil {
		return err
	}
	if short := d.shortage(c); short != nil {
		return short[0]
	}
	return &FullError{What: Places, Used: int64(d.all.clients), Limit: int64(d.limits.Clients)}
}

// dismiss makes a client leave the line without a place. The lock is held.
func (d *Desk) dismiss(c *Client) {
	d.line = without(d.line, c)
	d.release(c)
	c.phase = greeted
	close(c.turn)
}

// makeWay makes the newest client of the address that waits most often leave the line, unless that would not
// make the line fairer for the newcomer. The lock is held.
func (d *Desk) makeWay(newcomer *Client) bool {
	by, most := count(d.line)
	if by[most] <= by[newcomer.from] {
		return false
	}
	for _, c := range slices.Backward(d.line) {
		if c.from == most {
			d.dismiss(c)
			break
		}
	}
	return true
}

// attend gives the clients in the line their places, and ends clients for those that still wait. The lock is held.
func (d *Desk) attend() {
	d.grant()
	if d.look != nil {
		d.look.Stop()
		d.look = nil
	}
	if again := d.makeRoom(); again > 0 {
		d.look = time.AfterFunc(again, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.attend()
		})
	}
}

// grant gives places to the clients for which there are some. The lock is held.
func (d *Desk) grant() {
	for {
		next := -1
		for i, c := range d.line {
			if d.fits(c) && (next < 0 || d.compare(c, d.line[next]) < 0) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		c := d.line[next]
		d.line = slices.Delete(d.line, next, next+1)
		d.take(c)
		close(c.turn)
	}
}

// compare orders the clients in the line: the address with fewer that connect is first. The lock is held.
func (d *Desk) compare(a, b *Client) int { return d.by[a.from].connecting - d.by[b.from].connecting }

// firsts returns the client of each address that is next, in the order of compare. The lock is held.
func (d *Desk) firsts() (next []*Client) {
	seen := make(map[netip.Addr]bool)
	for _, c := range d.line {
		if !seen[c.from] {
			seen[c.from] = true
			next = append(next, c)
		}
	}
	slices.SortStableFunc(next, d.compare)
	return next
}
