// The line of newcomers that wait for a place. It is short, and no address can fill it: when it is
// full, a newcomer takes the waiting place of an address that has more.

package admission

import (
	"net/netip"
	"slices"
)

// mostWaiting is how many newcomers wait at a time.
const mostWaiting = 64

// waiter is a newcomer in the line.
type waiter struct {
	from netip.Addr
	out  chan struct{} // closed when another address got its waiting place
}

// wait puts a newcomer into the line. It returns nil if the newcomer cannot wait. The lock is held.
func (d *Desk) wait(from netip.Addr) *waiter {
	if len(d.line) == mostWaiting && !d.makeWay(from) {
		return nil
	}
	w := &waiter{from, make(chan struct{})}
	d.line = append(d.line, w)
	return w
}

// makeWay ends the wait of the newest newcomer from the address that waits most often, unless that would
// not make the line fairer. The lock is held.
func (d *Desk) makeWay(from netip.Addr) bool {
	by := make(map[netip.Addr]int)
	most := from
	for _, w := range d.line {
		if by[w.from]++; by[w.from] > by[most] {
			most = w.from
		}
	}
	if by[most] <= by[from]+1 {
		return false
	}
	for i, w := range slices.Backward(d.line) {
		if w.from == most {
			close(w.out)
			d.line = slices.Delete(d.line, i, i+1)
			break
		}
	}
	return true
}

// leaveLine ends a newcomer's wait; nil never waited.
func (d *Desk) leaveLine(w *waiter) {
	if w == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.line = slices.DeleteFunc(d.line, func(other *waiter) bool { return other == w })
}
