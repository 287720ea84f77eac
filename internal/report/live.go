// The clients of a server, for pages that watch them.

package report

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rawverbs/rawverbs/internal/trace"
)

// Limits of what a Live keeps. The memory is at most keptPerClient, and keptPackets beginnings of packets,
// for each client that is being served and for each of the last keptClients.
const (
	keptPerClient = 128 << 10 // bytes of events
	keptClients   = 32
	maxWatchers   = 32
	maxPending    = 1 << 20 // bytes of events that a page may be behind
)

// Live has the clients of a server, for pages that watch them. If no page watches, it only keeps the
// events of each client, up to a limit.
type Live struct {
	mu       sync.Mutex
	clients  []*Client // in the order of their coming
	watchers map[*watcher]bool

	device string // whose packets Packet gets
	wire   wire
}

// Client is a client of the server.
type Client struct {
	live    *Live
	who     string
	keeper  *trace.Keeper
	packets Collector    // under live.wire.mu
	full    atomic.Bool  // all packets that are kept are there
	omitted atomic.Int64 // packets that came when it was full
	state   clientState  // under live.mu
	over    bool
}

// clientState is what a page shows of a client in addition to its events.
type clientState struct {
	Who   string `json:"who"`
	Peer  string `json:"peer,omitempty"`
	Job   string `json:"job,omitempty"`
	State string `json:"state,omitempty"` // "running", "done" or "failed"
	Error string `json:"error,omitempty"`
}

// NewLive returns a Live without clients, for a server on a device.
func NewLive(device string) *Live {
	return &Live{watchers: map[*watcher]bool{}, device: device}
}

// Begin adds a client, whose events go to Client.Handler. A nil Live has no clients.
func (l *Live) Begin(who, peer string) *Client {
	if l == nil {
		return nil
	}
	c := &Client{live: l, who: who, keeper: trace.NewKeeper(trace.EndServer, keptPerClient), state: clientState{Who: who, Peer: peer, State: "running"}}
	c.keeper.Watch(c.own)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients = append(l.clients, c)
	for w := range l.watchers {
		w.follow(c)
	}
	return c
}

// Handler returns the handler that the client's events go to.
func (c *Client) Handler() slog.Handler { return c.keeper }

// Job says which job the client has chosen.
func (c *Client) Job(name string) {
	if c != nil {
		c.change(func() { c.state.Job = name })
	}
}

// End says that the client's job is over. Beyond a limit, the oldest client whose job is over is
// forgotten.
func (c *Client) End(err error) {
	if c == nil {
		return
	}
	c.change(func() {
		c.over, c.state.State = true, "done"
		if err != nil {
			c.state.State, c.state.Error = "failed", err.Error()
		}
		over := 0
		for _, other := range c.live.clients {
			if other.over {
				over++
			}
		}
		if over > keptClients {
			c.live.forget(slices.IndexFunc(c.live.clients, func(o *Client) bool { return o.over }))
		}
	})
}

// Remove forgets a client that began no job.
func (c *Client) Remove() {
	if c == nil {
		return
	}
	c.live.mu.Lock()
	defer c.live.mu.Unlock()
	if i := slices.Index(c.live.clients, c); i >= 0 {
		c.live.forget(i)
	}
}

// forget removes a client. The lock is held.
func (l *Live) forget(i int) {
	who := l.clients[i].who
	l.wire.release(l.clients[i])
	l.clients = slices.Delete(l.clients, i, i+1)
	for w := range l.watchers {
		w.gone(who)
	}
}

func (c *Client) change(by func()) {
	c.live.mu.Lock()
	defer c.live.mu.Unlock()
	by()
	for w := range c.live.watchers {
		w.tell(c.state, false)
	}
}

// watch adds a page, nil if there are too many.
func (l *Live) watch() *watcher {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watchers) >= maxWatchers {
		return nil
	}
	w := &watcher{live: l, ready: make(chan struct{}, 1), stops: map[string]func(){}, drawn: map[*Client]int{}}
	l.watchers[w] = true
	for _, c := range l.clients {
		w.follow(c)
	}
	return w
}

// watcher is a page that watches. Its methods never wait for the page.
type watcher struct {
	live  *Live
	ready chan struct{} // has a value if there is news
	stops map[string]func()
	drawn map[*Client]int // which packets the page has, for draw alone

	mu      sync.Mutex
	news    []*news
	open    map[string]*news // the last of each client in news, to which events may be added
	pending int              // bytes of events in news, without those that were kept before
	behind  bool             // too much was pending, and the rest is dropped
}

// news is a message to the page.
type news struct {
	clientState
	Begin  bool     // forget what was known of the client
	Gone   bool     // the client is forgotten
	Events [][]byte // lines of JSON

	Drawing *drawing // all packets of the client; nil if there are no new ones
}

// follow begins to watch a client. The lock of Live is held.
func (w *watcher) follow(c *Client) {
	who := c.who
	w.tell(c.state, true)
	lines, stop := c.keeper.Watch(func(line []byte) { w.event(who, line) })
	w.stops[who] = stop
	w.mu.Lock()
	defer w.mu.Unlock()
	// Events that were logged since Watch come after those that were kept before.
	n := w.at(who)
	later := n.Events
	n.Events = nil
	n.Events = append(n.Events, lines...)
	n.Events = append(n.Events, later...)
}

// at returns the message to which events of a client are added. The watcher's lock is held.
func (w *watcher) at(who string) *news {
	if n := w.open[who]; n != nil {
		return n
	}
	return w.add(&news{clientState: clientState{Who: who}})
}

// add adds a message. The watcher's lock is held.
func (w *watcher) add(n *news) *news {
	if w.open == nil {
		w.open = map[string]*news{}
	}
	w.news = append(w.news, n)
	w.open[n.Who] = n
	select {
	case w.ready <- struct{}{}:
	default:
	}
	return n
}

func (w *watcher) tell(state clientState, begin bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(&news{clientState: state, Begin: begin})
}

// gone says that a client is forgotten. The lock of Live is held.
func (w *watcher) gone(who string) {
	if stop := w.stops[who]; stop != nil {
		stop()
		delete(w.stops, who)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(&news{clientState: clientState{Who: who}, Gone: true})
}

func (w *watcher) event(who string, line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.behind {
		return
	}
	if w.pending += len(line); w.pending > maxPending {
		w.behind = true
		return
	}
	n := w.at(who)
	n.Events = append(n.Events, line)
}

// take returns the news, and whether the page was too slow for all of it.
func (w *watcher) take() (all []*news, behind bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all = w.news
	w.news, w.open, w.pending = nil, nil, 0
	return all, w.behind
}

// stop ends the watching.
func (w *watcher) stop() {
	w.live.mu.Lock()
	defer w.live.mu.Unlock()
	delete(w.live.watchers, w)
	for _, stop := range w.stops {
		stop()
	}
}
