// The clients of a server, for pages that watch them.

package report

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
)

// Limits of what a Live keeps.
const (
	maxClients    = 128       // with a job
	keptClients   = 32        // of them, those whose jobs are over
	keptPerClient = 128 << 10 // bytes of events
	maxPages      = 32
)

// Memory is how many bytes a Live and its pages need at most: what it keeps, and for each page two messages, because a
// buffer that grows is copied, and what the system keeps.
const Memory = maxClients*perClient + maxPages*(2*perMessage+2*writeBuffer)

const (
	perClient  = keptPerClient + keptPackets*(collectorKept+64)
	perMessage = keptPerClient + keptPackets*512
)

// Live has the clients of a server, for pages that watch them. Nothing waits for a page in memory: a page asks for what
// is new whenever it has got what was new before.
type Live struct {
	mu      sync.Mutex
	clients []*Client // with a job, in the order in which they chose it
	pages   int

	device  string // whose packets Packet gets
	wire    wire
	drawing sync.Mutex // one drawing at a time is made
}

// Client is a client of the server.
type Client struct {
	live     *Live
	who      string
	recorder *trace.Recorder
	claimed  []address   // the queue pairs that are not connected yet; under the recorder's lock
	owned    []address   // those that are; under live.wire.mu
	packets  Collector   // under live.wire.mu
	full     atomic.Bool // no more packets are kept
	omitted  atomic.Int64
	state    clientState // under live.mu
	over     bool
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
func NewLive(device string) *Live { return &Live{device: device} }

// Begin makes a client, whose events go to Client.Handler. Pages show it once it has a job. A nil Live has no clients.
func (l *Live) Begin(who, peer string) *Client {
	if l == nil {
		return nil
	}
	c := &Client{live: l, who: who, recorder: trace.NewRecorder(trace.EndServer, keptPerClient), state: clientState{Who: who, Peer: peer, State: "running"}}
	c.recorder.Watch(c.own)
	return c
}

// Handler returns the handler that the client's events go to.
func (c *Client) Handler() slog.Handler { return c.recorder }

// Job says which job the client has chosen; "" is none. If too many jobs are shown, the oldest that is over is
// forgotten. If none is over, the client is not shown.
func (c *Client) Job(name string) {
	if c == nil || name == "" {
		return
	}
	l := c.live
	l.mu.Lock()
	defer l.mu.Unlock()
	c.state.Job = name
	if len(l.clients) == maxClients && !l.forgetOldest() {
		c.drop()
		return
	}
	l.clients = append(l.clients, c)
}

// End says that the client's job is over.
func (c *Client) End(err error) {
	if c == nil {
		return
	}
	l := c.live
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.clients, c) {
		c.drop()
		return
	}
	c.over, c.state.State = true, "done"
	if err != nil {
		c.state.State, c.state.Error = "failed", err.Error()
	}
	over := 0
	for _, other := range l.clients {
		if other.over {
			over++
		}
	}
	if over > keptClients {
		l.forgetOldest()
	}
}

// Remove forgets a client that began no job.
func (c *Client) Remove() {
	if c == nil {
		return
	}
	c.live.mu.Lock()
	defer c.live.mu.Unlock()
	c.live.clients = slices.DeleteFunc(c.live.clients, func(o *Client) bool { return o == c })
	c.drop()
}

// forgetOldest forgets the oldest client whose job is over. The lock is held.
func (l *Live) forgetOldest() bool {
	i := slices.IndexFunc(l.clients, func(c *Client) bool { return c.over })
	if i < 0 {
		return false
	}
	l.clients[i].drop()
	l.clients = slices.Delete(l.clients, i, i+1)
	return true
}

// drop frees what is kept of a client. Its goroutines may still log, and a page may still name it.
func (c *Client) drop() {
	c.recorder.Discard()
	c.live.wire.release(c)
}

// page is a page that watches. It is for one goroutine.
type page struct {
	live *Live
	has  map[*Client]*had
}

// had is what a page has of a client.
type had struct {
	state  clientState
	events int // the number of events
	drawn  int // which packets, for draw alone
}

// watch adds a page, nil if there are too many.
func (l *Live) watch() *page {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pages == maxPages {
		return nil
	}
	l.pages++
	return &page{live: l, has: map[*Client]*had{}}
}

// stop ends the watching.
func (p *page) stop() {
	p.live.mu.Lock()
	defer p.live.mu.Unlock()
	p.live.pages--
}

// news is a message to a page.
type news struct {
	clientState
	Begin  bool     // forget what was known of the client
	Gone   bool     // the client is forgotten
	Events [][]byte // lines of JSON

	Drawing *drawing // all packets of the client; nil if there are no new ones
}

// shown is a client at one moment.
type shown struct {
	*Client
	state clientState
	over  bool
}

// now returns the clients.
func (l *Live) now() []shown {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]shown, len(l.clients))
	for i, c := range l.clients {
		all[i] = shown{c, c.state, c.over}
	}
	return all
}

// news calls send for each client of which something is new, until send returns false. New packets count only
// if draw is true.
func (p *page) news(draw bool, send func(*news) bool) bool {
	clients := p.live.now()
	for c := range p.has {
		if !slices.ContainsFunc(clients, func(s shown) bool { return s.Client == c }) {
			delete(p.has, c)
			if !send(&news{clientState: clientState{Who: c.who}, Gone: true}) {
				return false
			}
		}
	}
	for _, s := range clients {
		if n := p.newsOf(s, draw); n != nil && !send(n) {
			return false
		}
	}
	return true
}

// newsOf returns what is new of a client, nil if nothing is.
func (p *page) newsOf(s shown, draw bool) *news {
	n := &news{clientState: clientState{Who: s.who}}
	h := p.has[s.Client]
	if h == nil {
		h = &had{}
		p.has[s.Client], n.Begin = h, true
	}
	if h.state != s.state {
		h.state, n.clientState = s.state, s.state
	}
	if draw {
		n.Drawing = h.draw(s)
	}
	n.Events, h.events = s.recorder.Since(h.events) // has the events that the packets belong to
	if n.State == "" && len(n.Events) == 0 && n.Drawing == nil {
		return nil
	}
	return n
}
