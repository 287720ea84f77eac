// Package admission decides which clients a server serves. It accepts their connections, and counts places
// and bytes of memory over all clients and for each client address. A server asks before it makes anything
// for a client. rdma_server, rc.Server and rnet.Listener use it.
//
// A client goes through four phases, in which it may lose its connection to another:
//
//   - silent: no hello has arrived (silent.go). Of too many, the oldest of the address with most leaves.
//   - waiting for a place (line.go). The address with the fewest clients that connect is next.
//   - connecting: it has a place, and its queue pairs are not in RTS. If the server has waited for its next message
//     for [Silence] or [LongSilence], it may lose the place to another client, those of the address with most first (room.go).
//   - connected: only a server that gives Admit a function idle ends it, if it is idle: after [Grace] if it has
//     never moved data, otherwise after [Pause].
//
// If a newcomer would still not fit, no client is ended for it. What ended clients free is kept for the newcomer
// that they were ended for.
package admission

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/oob"
)

const (
	// Silence is how long a server waits for the next message of a client that connects, if others want its place.
	// The server's own work does not count, so a crowd on a busy host can connect.
	Silence = time.Second
	// LongSilence is the same if the other client's address has as many that connect. Crowds of one host are
	// slower than one client of another, and a slow host needs seconds to make a queue pair.
	LongSilence = 5 * time.Second
	// Grace is how long a connected client may do nothing before its first data, if others want its place.
	Grace = 500 * time.Millisecond
	// Pause is how long any other client may do nothing, if others want its place.
	Pause = 5 * time.Second
	// Patience is how long a newcomer usually waits for a place.
	Patience = 1500 * time.Millisecond
	// Waiting is how many newcomers usually wait for a place at a time.
	Waiting = 64
)

// Limits are what clients may use at a time. Counts and bytes of 0 are no limit.
type Limits struct {
	Clients           int
	ClientsPerAddress int   // of each client address
	Memory            int64 // bytes
	MemoryPerAddress  int64 // bytes, of each client address
	SharedPlaces      bool  // ClientsPerAddress does not hold for clients on this host
	SharedMemory      bool  // MemoryPerAddress does not

	Waiting  int           // newcomers that wait for a place; 0: a full server refuses at once, and ends no client
	Patience time.Duration // how long each of them waits
}

// usage is what some clients use.
type usage struct {
	clients    int
	connecting int // of these, the ones that are not connected yet
	memory     int64
}

func (u usage) plus(other usage) usage {
	return usage{u.clients + other.clients, u.connecting + other.connecting, u.memory + other.memory}
}

func (u usage) negative() usage { return usage{-u.clients, -u.connecting, -u.memory} }

// Controller admits the clients of one server. [New] makes it. Its methods may be called by several goroutines.
type Controller struct {
	Freed func(bytes int64) // gets what each client that leaves has had; set it before the first client, or leave it nil

	limits    Limits
	maxSilent int

	mu       sync.Mutex
	accepted int
	silent   []*Client // in the order in which they connected
	line     []*Client // in the order in which they came
	admitted []*Client
	all      usage
	by       map[netip.Addr]usage
	kept     map[netip.Addr]usage // what ended clients of an address have freed for clients in the line
	look     *time.Timer          // calls attend when a client may be ended
}

// New makes a Controller.
func New(l Limits) *Controller {
	return &Controller{limits: l, maxSilent: silentFor(openFiles()), by: make(map[netip.Addr]usage), kept: make(map[netip.Addr]usage)}
}

// Usage is what the clients of a Controller use.
type Usage struct {
	Clients int   // that have places
	Waiting int   // that wait for places
	Memory  int64 // bytes that the Clients asked for
}

// Usage returns what the clients use.
func (ac *Controller) Usage() Usage {
	ac.mu.Lock()
	defer ac.mu.Unlock()
	return Usage{ac.all.clients, len(ac.line), ac.all.memory}
}

// Serve accepts connections until accept fails, and returns its error. It calls serve for each connection, in
// a goroutine of clients. The client has left when serve returns. ctx limits the silent phase.
func Serve[C interface{ TCP() *oob.Conn }](ctx context.Context, ac *Controller, clients *sync.WaitGroup, accept func(context.Context) (C, error), serve func(*Client, C)) error {
	for {
		in, err := accept(ctx)
		if err != nil {
			return err
		}
		tcp := in.TCP()
		// Clients enter in the order of accept, so the oldest leaves first.
		c := ac.enter(ctx, tcp.LocalAddr(), tcp.RemoteAddr())
		c.gone, c.why, c.waited = tcp.Done(), tcp.Err, tcp.Waited
		clients.Go(func() {
			defer c.Leave()
			serve(c, in)
		})
	}
}

// Client is a client of a Controller. Its methods are for one goroutine.
type Client struct {
	Number int // counts from 1, in the order of accept

	controller *Controller
	from       netip.Addr
	local      bool            // it is on this host
	gone       <-chan struct{} // closed when its TCP connection has ended; nil: never
	why        func() error    // why it has ended
	// waited returns for how long the server has waited for its next message.
	waited func() time.Duration

	ctx context.Context // of its phase; ends when the client has to leave
	end context.CancelCauseFunc

	// The Controller's lock guards the following.
	phase phase
	usage usage
	since time.Time // when its phase began
	idle  func() (since time.Duration, moved bool)
	ended *Client       // it has to leave for this client; nil: it may stay
	freed []*Client     // the clients that have left for this one, while it is in the line
	turn  chan struct{} // closed when it has left the line
}

type phase int

const (
	silent  phase = iota
	greeted       // between the other phases
	waiting
	connecting
	connected
	left
)

func (ac *Controller) enter(ctx context.Context, local, remote net.Addr) *Client {
	from := addressOf(remote)
	c := &Client{controller: ac, from: keyOf(from), local: from.IsLoopback() || from == addressOf(local)}
	if c.local {
		c.from = from // the clients of this host do not count for their neighbours in the network
	}
	c.ctx, c.end = context.WithCancelCause(ctx)
	ac.mu.Lock()
	defer ac.mu.Unlock()
	ac.accepted++
	c.Number = ac.accepted
	ac.makeRoomForSilent()
	ac.silent = append(ac.silent, c)
	return c
}

// Admit waits for a place and memory, in bytes. The context that it returns ends with ctx, with Leave, or with
// the reason if the client has to leave for another. idle returns for how long a connected client has done
// nothing, and whether it has ever moved data; if it is nil, a connected client is never ended. An error that is a
// [*FullError] says what is used and what is allowed.
func (c *Client) Admit(ctx context.Context, memory int64, idle func() (since time.Duration, moved bool)) (context.Context, error) {
	c.end(nil) // the silent phase
	c.ctx, c.end = context.WithCancelCause(ctx)
	c.usage, c.idle = usage{1, 1, memory}, idle
	if err := c.controller.queue(c); err != nil {
		return nil, err
	}
	return c.ctx, c.await()
}

// Connected says that both ends are connected. From now on the client uses so many bytes. The error is why the client
// has to leave nevertheless.
func (c *Client) Connected(memory int64) error {
	ac := c.controller
	ac.mu.Lock()
	defer ac.mu.Unlock()
	if c.ended != nil {
		return context.Cause(c.ctx)
	}
	ac.count(c, usage{1, 0, memory})
	c.phase, c.since = connected, time.Now()
	ac.attend()
	return nil
}

// Leave gives back what the client has. Later calls do nothing.
func (c *Client) Leave() {
	c.end(nil)
	ac := c.controller
	ac.mu.Lock()
	defer ac.mu.Unlock()
	switch c.phase {
	case silent:
		ac.silent = without(ac.silent, c)
	case waiting:
		ac.line = without(ac.line, c)
		ac.release(c)
	case connecting, connected:
		ac.free(c)
	}
	c.phase = left
}

// free takes back a client's place and memory. The lock is held.
func (ac *Controller) free(c *Client) {
	had := c.usage
	ac.count(c, usage{})
	ac.admitted = without(ac.admitted, c)
	if heir := c.ended; heir != nil && heir.phase == waiting {
		c.usage = had
		heir.freed = append(heir.freed, c)
		ac.kept[c.from] = ac.kept[c.from].plus(had)
	}
	if ac.Freed != nil {
		ac.Freed(had.memory)
	}
	ac.attend()
}

// release ends the keeping of what others have freed for a client. The lock is held.
func (ac *Controller) release(c *Client) {
	for _, other := range c.freed {
		if ac.kept[other.from] = ac.kept[other.from].plus(other.usage.negative()); ac.kept[other.from] == (usage{}) {
			delete(ac.kept, other.from)
		}
	}
	c.freed = nil
}

// take gives a client its place. The lock is held.
func (ac *Controller) take(c *Client) {
	ac.release(c)
	now := c.usage
	c.usage = usage{}
	ac.count(c, now)
	c.phase, c.since = connecting, time.Now()
	ac.admitted = append(ac.admitted, c)
}

// count changes what a client uses. The lock is held.
func (ac *Controller) count(c *Client, now usage) {
	change := now.plus(c.usage.negative())
	c.usage = now
	ac.all = ac.all.plus(change)
	if ac.by[c.from] = ac.by[c.from].plus(change); ac.by[c.from] == (usage{}) {
		delete(ac.by, c.from)
	}
}

// addressOf returns the IP address of a TCP address.
func addressOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
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
