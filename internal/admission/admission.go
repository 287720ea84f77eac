// Package admission decides which clients a server takes. It counts places and bytes of memory, over
// all clients and for each client address. The server asks before it makes anything for a client.
//
// A full server looks for idle clients before it refuses one. A client that has never moved data is
// idle after [Grace], any other after [Pause]. The server ends the runs of idle clients, the longest
// idle first, and the newcomer gets what they free. A newcomer waits at most [Patience] for that. If the
// newcomer would still not fit, no client is ended for it.
//
// What clients free returns to the system within seconds (reclaim.go). available_linux.go finds how
// much memory the process may use.
package admission

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// Grace is how long a client may do nothing before its first data, if others want its place.
	Grace = 500 * time.Millisecond
	// Pause is how long any other client may do nothing, if others want its place.
	Pause = 5 * time.Second
	// Patience is how long a newcomer waits for a place.
	Patience = 900 * time.Millisecond
)

// Limits are what clients may use at a time. All are at least 1.
type Limits struct {
	Clients           int
	ClientsPerAddress int   // of each client address
	Memory            int64 // bytes
	MemoryPerAddress  int64 // bytes, of each client address
	SharedPlaces      bool  // ClientsPerAddress does not hold for clients on this host
	SharedMemory      bool  // MemoryPerAddress does not
	Strict            bool  // a full server refuses at once, and ends no idle client
}

// usage is what some clients use.
type usage struct {
	clients int
	memory  int64
}

// Desk counts what clients use. [New] makes it. Its methods may be called by several goroutines.
type Desk struct {
	limits Limits

	mu      sync.Mutex
	all     usage
	by      map[netip.Addr]usage
	guests  []*Guest
	line    []*waiter
	freed   chan struct{} // closed and made anew when a guest has left
	reclaim reclaim
}

// New makes a Desk.
func New(l Limits) *Desk {
	return &Desk{limits: l, by: make(map[netip.Addr]usage), freed: make(chan struct{})}
}

// Guest is an admitted client, until Leave.
type Guest struct {
	desk    *Desk
	from    netip.Addr
	usage   usage
	idle    func() (since time.Duration, moved bool)
	end     func(error)
	ended   bool // end was called
	leaving sync.Once
}

// Client is a client that asks for a place.
type Client struct {
	Address netip.Addr // of its TCP connection
	Local   bool       // it is on this host
	Memory  int64      // bytes that it needs

	// Idle returns for how long the client has done nothing, and whether it has ever moved data.
	Idle func() (since time.Duration, moved bool)
	// End ends the client with an error, and returns at once. Leave follows.
	End func(error)
}

// Admit takes a place and memory for a client. The error says what is used and what is allowed.
func (d *Desk) Admit(ctx context.Context, c Client) (*Guest, error) {
	g := &Guest{desk: d, from: keyOf(c.Address), usage: usage{1, c.Memory}, idle: c.Idle, end: c.End}
	late := time.NewTimer(Patience)
	defer late.Stop()
	var place *waiter // in the line
	defer func() { d.leaveLine(place) }()
	for last := false; ; {
		d.mu.Lock()
		short := d.shortage(g, c.Local)
		if short == nil {
			d.take(g)
		} else if place == nil && !short[0].never() && !d.limits.Strict {
			place = d.wait(g.from)
		}
		if short == nil || place == nil || last {
			d.mu.Unlock()
			return decided(g, short)
		}
		idle, again := d.idlers(short)
		freed := d.freed
		d.mu.Unlock()
		for _, i := range idle {
			i.end(&IdleError{})
		}
		if again == 0 {
			again = Patience
		}
		wait := time.NewTimer(again)
		select {
		case <-freed:
		case <-wait.C:
		case <-late.C:
			last = true
		case <-place.out:
			last = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		wait.Stop()
	}
}

func decided(g *Guest, short []*FullError) (*Guest, error) {
	if short != nil {
		return nil, short[0]
	}
	return g, nil
}

// Usage returns how many clients there are, and the memory that they asked for.
func (d *Desk) Usage() (clients int, memory int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all.clients, d.all.memory
}

// take counts a guest. The lock is held.
func (d *Desk) take(g *Guest) {
	d.add(g, 1)
	d.guests = append(d.guests, g)
}

func (d *Desk) add(g *Guest, sign int) {
	d.all.clients += sign * g.usage.clients
	d.all.memory += int64(sign) * g.usage.memory
	u := d.by[g.from]
	u.clients += sign * g.usage.clients
	u.memory += int64(sign) * g.usage.memory
	if d.by[g.from] = u; u == (usage{}) {
		delete(d.by, g.from)
	}
}

// Leave gives back the client's place and memory. Later calls do nothing.
func (g *Guest) Leave() {
	g.leaving.Do(func() {
		d := g.desk
		d.mu.Lock()
		defer d.mu.Unlock()
		d.add(g, -1)
		d.guests = slices.DeleteFunc(d.guests, func(other *Guest) bool { return other == g })
		close(d.freed)
		d.freed = make(chan struct{})
		d.freedMemory(g.usage.memory)
	})
}

// shortage returns the limits that a client would exceed, those of its address first. If it can never
// be admitted, they are the one limit that says so. The lock is held.
func (d *Desk) shortage(g *Guest, local bool) (short []*FullError) {
	l, mine := d.limits, d.by[g.from]
	var limits []*FullError
	if !local || !l.SharedPlaces {
		limits = append(limits, &FullError{What: Places, Address: g.from, Used: int64(mine.clients), Limit: int64(l.ClientsPerAddress), need: 1})
	}
	if !local || !l.SharedMemory {
		limits = append(limits, &FullError{What: Memory, Address: g.from, Used: mine.memory, Limit: l.MemoryPerAddress, Asked: g.usage.memory, need: g.usage.memory})
	}
	limits = append(limits,
		&FullError{What: Places, Used: int64(d.all.clients), Limit: int64(l.Clients), need: 1},
		&FullError{What: Memory, Used: d.all.memory, Limit: l.Memory, Asked: g.usage.memory, need: g.usage.memory})
	for _, f := range limits {
		switch {
		case f.never():
			return []*FullError{f}
		case f.room() < 0:
			short = append(short, f)
		}
	}
	return short
}

// idlers picks the guests to end so that there is room for a client, and marks them as ended. If the idle
// guests would not make room, it picks none. again is then the time until enough guests may be idle, or 0
// if they never make room. The lock is held.
func (d *Desk) idlers(short []*FullError) (chosen []*Guest, again time.Duration) {
	type candidate struct {
		*Guest
		rest   time.Duration // until it is idle; less than 0: it is
		picked bool
	}
	var all []*candidate
	for _, other := range d.guests {
		c := &candidate{Guest: other, picked: other.ended}
		if !other.ended {
			since, moved := other.idle()
			c.rest = Grace - since
			if moved {
				c.rest = Pause - since
			}
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(a.rest, b.rest) })
	for _, f := range short {
		room := f.room()
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
		if c.picked && !c.ended {
			c.ended = true
			chosen = append(chosen, c.Guest)
		}
	}
	return chosen, 0
}

// weight returns what a guest's leaving adds to what is short.
func (g *Guest) weight(short *FullError) int64 {
	if short.Address.IsValid() && g.from != short.Address {
		return 0
	}
	if short.What == Places {
		return int64(g.usage.clients)
	}
	return g.usage.memory
}

// keyOf returns the address that stands for a client: of IPv6 the network of 64 bits, because a host
// may take any address in its own.
func keyOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() && !a.IsLoopback() {
		if network, err := a.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return a
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
	need        int64 // places or bytes
}

// never reports whether the client needs more than the limit.
func (e *FullError) never() bool { return e.need > e.Limit }

// room returns what would be left, less than 0 if it is short. Nothing here is less than 0, so it does
// not overflow.
func (e *FullError) room() int64 { return e.Limit - e.Used - e.need }

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

// IdleError is the error of an idle client that the server ended for another.
type IdleError struct{}

// MayComeBack is true: the client may do its job again, so what it has sent stays. See job.Lost.
func (*IdleError) MayComeBack() bool { return true }

func (*IdleError) Error() string {
	return "the server is full, and ended this client for another because it moved no data; try: again later"
}
