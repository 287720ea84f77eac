// What is short for a newcomer, and which clients have to leave for it.

package admission

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"
)

// bound is one of the limits that a client may not exceed.
type bound struct {
	what              string
	address           netip.Addr // not valid: of all clients
	used, limit, need int64
}

// room returns what would be left, less than 0 if it is short. Nothing here is less than 0, so it does
// not overflow.
func (b *bound) room() int64 { return b.limit - b.used - b.need }

// bounds returns a client's limits, those of its address first. The lock is held.
func (ac *Controller) bounds(c *Client) [4]bound {
	l := ac.limits
	mine, all := ac.by[c.from], ac.all
	for from, kept := range ac.kept { // for others, and for this client
		all = all.plus(kept)
		if from == c.from {
			mine = mine.plus(kept)
		}
	}
	for _, other := range c.freed {
		all = all.plus(other.usage.negative())
		if other.from == c.from {
			mine = mine.plus(other.usage.negative())
		}
	}
	places, memory := limitOf(int64(l.ClientsPerAddress)), limitOf(l.MemoryPerAddress)
	if c.local && l.SharedPlaces {
		places = math.MaxInt64
	}
	if c.local && l.SharedMemory {
		memory = math.MaxInt64
	}
	need := c.usage.memory
	return [4]bound{
		{Places, c.from, int64(mine.clients), places, 1},
		{Memory, c.from, mine.memory, memory, need},
		{Places, netip.Addr{}, int64(all.clients), limitOf(int64(l.Clients)), 1},
		{Memory, netip.Addr{}, all.memory, limitOf(l.Memory), need},
	}
}

func limitOf(n int64) int64 {
	if n == 0 {
		return math.MaxInt64
	}
	return n
}

// fits reports whether there is room for a client. The lock is held.
func (ac *Controller) fits(c *Client) bool {
	all := ac.bounds(c)
	return !slices.ContainsFunc(all[:], func(b bound) bool { return b.room() < 0 })
}

// shortage returns the limits that a client would exceed. If it can never be admitted, they are the one limit
// that says so. The lock is held.
func (ac *Controller) shortage(c *Client) (short []*FullError) {
	for _, b := range ac.bounds(c) {
		f := &FullError{What: b.what, Address: b.address, Used: b.used, Limit: b.limit, bound: b}
		if b.what == Memory {
			f.Asked = b.need
		}
		switch {
		case f.never():
			return []*FullError{f}
		case b.room() < 0:
			short = append(short, f)
		}
	}
	return short
}

// atOnce limits for how many clients in the line makeRoom looks, because it takes time under the lock.
const atOnce = 8

// makeRoom ends clients so that there is room for those that are next in the line. again is the time until more of them may
// be ended, or 0. The lock is held.
func (ac *Controller) makeRoom() (again time.Duration) {
	next := ac.firsts()
	for _, c := range next[:min(len(next), atOnce)] {
		chosen, wait := ac.choose(c, ac.shortage(c))
		for _, other := range chosen {
			other.ended = c
			other.end(&IdleError{Connecting: other.phase == connecting})
		}
		if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	return again
}

// candidate is a client that may have to leave for another.
type candidate struct {
	*Client
	rest   time.Duration // until it may be ended; 0 or less: it may be ended now
	crowd  int           // clients of its address that connect, if it connects itself
	picked bool
}

// choose picks the clients that have to leave so that there is room for a newcomer. If they would not make room,
// it picks none. again is then the time until they may, or 0 if they never make room. The lock is held.
func (ac *Controller) choose(newcomer *Client, short []*FullError) (chosen []*Client, again time.Duration) {
	all := ac.candidates(newcomer)
	for _, f := range short {
		room := f.bound.room()
		for _, c := range all {
			if c.picked {
				room += c.weight(f)
			}
		}
		for _, c := range all {
			if w := c.weight(f); room < 0 && !c.picked && w > 0 {
				c.picked, room, again = true, room+w, max(again, c.rest)
			}
		}
		if room < 0 { // not even all of them would make room
			return nil, 0
		}
	}
	if again > 0 {
		return nil, again
	}
	for _, c := range all {
		if c.picked && c.ended == nil {
			chosen = append(chosen, c.Client)
		}
	}
	return chosen, 0
}

// candidates returns the clients that may leave for a newcomer, the first to leave first. The lock is held.
func (ac *Controller) candidates(newcomer *Client) (all []*candidate) {
	mine := ac.by[newcomer.from].connecting
	for _, c := range ac.admitted {
		o := &candidate{Client: c}
		switch {
		case c.ended != nil && c.ended != newcomer && c.ended.phase == waiting:
			continue // another gets its place
		case c.ended != nil:
			o.picked = true
		case c.phase == connecting:
			// An address that has more clients in this phase does not end those of others.
			if o.crowd = ac.by[c.from].connecting; o.crowd < mine {
				continue
			}
			o.rest = Silence - c.waited()
			if o.crowd <= mine+1 {
				o.rest = LongSilence - c.waited()
			}
		case c.idle == nil:
			continue
		default:
			since, moved := c.idle()
			since = min(since, time.Since(c.since)) // its wait for a place does not count
			o.rest = Grace - since
			if moved {
				o.rest = Pause - since
			}
		}
		all = append(all, o)
	}
	slices.SortStableFunc(all, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(max(a.rest, 0), max(b.rest, 0)), -cmp.Compare(a.crowd, b.crowd), cmp.Compare(a.rest, b.rest))
	})
	return all
}

// weight returns what a client's leaving adds to what is short.
func (c *Client) weight(short *FullError) int64 {
	if short.Address.IsValid() && c.from != short.Address {
		return 0
	}
	if short.What == Places {
		return 1
	}
	return c.usage.memory
}

// What can be short: the values of FullError.What.
const (
	Places = "clients"
	Memory = "bytes of memory"
)

// FullError is the error of a client for which a server has no place or memory.
type FullError struct {
	What        string
	Address     netip.Addr // whose limit it is; not valid: that of all clients
	Used, Limit int64
	Asked       int64 // bytes of memory; 0 for places
	bound       bound
}

// never reports whether the client needs more than the limit.
func (e *FullError) never() bool { return e.bound.need > e.bound.limit }

// Error has the figures.
func (e *FullError) Error() string {
	whose := ""
	if e.Address.IsValid() {
		whose = " from " + e.Address.String()
	}
	if e.What == Places {
		return fmt.Sprintf("the server already has %d clients%s, of at most %d; try: later", e.Used, whose, e.Limit)
	}
	all := "all clients" + whose + " together"
	if e.never() {
		return fmt.Sprintf("the client asks for %s of memory, and %s may use %s; try: less", size(e.Asked), all, size(e.Limit))
	}
	return fmt.Sprintf("the client asks for %s of memory; %s use %s of at most %s; try: later, or less", size(e.Asked), all, size(e.Used), size(e.Limit))
}

// size writes bytes with three digits at least.
func size(n int64) string {
	for _, u := range []struct {
		letter string
		shift  uint
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n >= 10<<u.shift {
			return fmt.Sprintf("%d %s", n>>u.shift, u.letter)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// IdleError is the error of a client that the server ended for another.
type IdleError struct {
	Connecting bool // it was not connected yet
}

// MayComeBack is true: the client may do its job again, so what it has sent stays. See kit.Lost.
func (*IdleError) MayComeBack() bool { return true }

func (e *IdleError) Error() string {
	why := "it moved no data"
	if e.Connecting {
		why = "it sent nothing for a while before it was connected"
	}
	return "the server is full, and ended this client for another because " + why + "; try: again later"
}
