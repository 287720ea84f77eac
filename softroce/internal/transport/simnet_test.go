// A network in simulated time: engines on a wire of package wire. The seed determines everything.

package transport

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/softroce/internal/wire"
)

var goodNetwork = wire.Faults{Delay: 10 * time.Microsecond}

type simnet struct {
	tb     testing.TB
	rng    *rand.Rand
	now    time.Duration
	faults wire.Faults
	nodes  []*simnode
	wire   *wire.Wire[simpacket]
	room   int                                      // bytes of each node's outbox
	tap    func(from, to *simnode, raw []byte) bool // false drops the packet
	tos    func(from *simnode, tos uint8) uint8     // changes the type of service
}

type simnode struct {
	net    *simnet
	engine *Engine
	addr   netip.Addr
	out    *Outbox
	asleep time.Duration // the node does nothing until then
	flight int           // Path.Flight
	joined bool
	shards int                // of its paths
	outlet [2]*Outlet         // of paths without a flow label, and with one; may be nil
	takes  func(b Burst) bool // reports whether the outlet takes a burst; nil: it does
	kept   []Burst            // that no outlet has taken
	events []Event
	batch  []Datagram // that have arrived
	flows  map[netip.Addr]packet.Flow
}

type simpacket struct {
	from, to *simnode
	tos      uint8
}

func newSimnet(tb testing.TB, seed uint64) *simnet {
	rng := rand.New(rand.NewPCG(seed, 1))
	return &simnet{tb: tb, rng: rng, faults: goodNetwork, wire: wire.New[simpacket](rng), room: 128 << 10}
}

func (n *simnet) node(addr string) *simnode { return n.nodeWith(addr, Config{}) }

func (n *simnet) nodeWith(addr string, cfg Config) *simnode {
	node := &simnode{net: n, addr: netip.MustParseAddr(addr), flows: map[netip.Addr]packet.Flow{}}
	cfg.Rand = rand.NewPCG(n.rng.Uint64(), uint64(len(n.nodes)))
	if cfg.MTU == 0 {
		cfg.MTU = qpstate.MTU4096
	}
	cfg.Event = func(e Event) { node.events = append(node.events, e) }
	cfg.Resolve = func(a *qpstate.AHAttr) (*Path, error) {
		return &Path{Src: node.addr, Dst: a.GRH.DGID.Addr(), Flight: node.flight, Joined: node.joined, Shards: node.shards,
			Outlet: node.outlet[min(a.GRH.FlowLabel, 1)]}, nil
	}
	cfg.Reply = func(from, to netip.Addr) *Path { return &Path{Src: from, Dst: to} }
	node.engine = New(cfg)
	node.out = NewOutbox(make([]byte, n.room), 8, 64)
	n.nodes = append(n.nodes, node)
	return node
}

// flow returns the ICRC's flow from the node to addr.
func (s *simnode) flow(to netip.Addr) packet.Flow {
	f, ok := s.flows[to]
	if !ok {
		var err error
		f, err = packet.NewFlow(netip.AddrPortFrom(s.addr, packet.Port), netip.AddrPortFrom(to, packet.Port))
		if err != nil {
			s.net.tb.Fatal(err)
		}
		s.flows[to] = f
	}
	return f
}

// step advances to the time of the next event. It returns false if there is none before the
// limit.
func (n *simnet) step(limit time.Duration) bool {
	n.transmit()
	next := n.wire.Next()
	for _, s := range n.nodes {
		if s.asleep > n.now {
			next = min(next, s.asleep)
			continue
		}
		if at, ok := s.engine.Deadline(); ok {
			next = min(next, at)
		}
	}
	if next == never || next > limit {
		return false
	}
	n.now = max(n.now, next)
	for p, ok := n.wire.Take(n.now); ok; p, ok = n.wire.Take(n.now) {
		p.Of.to.arrive(p)
	}
	for _, s := range n.nodes {
		if s.asleep > n.now {
			continue
		}
		if len(s.batch) > 0 {
			s.engine.Receive(n.now, s.batch)
			for _, d := range s.batch {
				n.wire.Free(d.Data)
			}
			s.batch = s.batch[:0]
		}
		s.engine.Advance(n.now)
	}
	return true
}

func (s *simnode) arrive(p wire.Packet[simpacket]) {
	from := p.Of.from
	if m, _ := from.flow(s.addr).Verify(p.Data, 0); m == packet.NoMatch {
		s.net.wire.Free(p.Data)
		return
	}
	s.batch = append(s.batch, Datagram{Data: p.Data, Src: from.addr, Dst: s.addr, TOS: p.Of.tos, TTL: 64})
}

// transmit sends the packets of all nodes.
func (n *simnet) transmit() {
	for _, s := range n.nodes {
		if s.asleep > n.now {
			continue
		}
		for {
			bursts := s.engine.Transmit(n.now, s.out)
			if len(bursts) == 0 {
				break
			}
			for i, b := range bursts {
				if s.takes == nil || s.takes(b) {
					s.send(b)
					continue
				}
				b.Path.Outlet.Fill()
				s.out.Wait(i)
				b.Data = slices.Clone(b.Data)
				s.kept = append(s.kept, b)
			}
		}
	}
}

func (s *simnode) send(b Burst) {
	n := s.net
	i := slices.IndexFunc(n.nodes, func(to *simnode) bool { return to.addr == b.Path.Dst })
	if i < 0 {
		return
	}
	to := n.nodes[i]
	flow := s.flow(b.Path.Dst)
	k := uint16(0)
	for raw := range slices.Chunk(b.Data, b.Segment) {
		flow.Seal(raw, k)
		k++
		if n.tap != nil && !n.tap(s, to, raw) {
			continue
		}
		tos := b.Path.TrafficClass
		if n.tos != nil {
			tos = n.tos(s, tos)
		}
		n.wire.Send(n.now, &n.faults, simpacket{s, to, tos}, raw)
	}
}

func (n *simnet) chance(p float64) bool { return p > 0 && n.rng.Float64() < p }

// run steps until done returns true. It fails the test if that does not happen within the time.
func (n *simnet) run(within time.Duration, done func() bool) {
	n.tb.Helper()
	limit := n.now + within
	for !done() {
		if n.step(limit) {
			continue
		}
		if done() { // the last transmit may have been enough
			return
		}
		n.tb.Fatalf("at %v: no event is left, and the test is not done", n.now)
	}
}

// settle steps until no event is left.
func (n *simnet) settle() {
	for n.step(never - 1) {
	}
}
