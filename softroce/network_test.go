// A simulated network: a wire of package wire whose ends are links. It uses the clock of package time, and therefore works
// with testing/synctest.

package softroce

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/softroce/internal/wire"
)

// network is a simulated network. Several goroutines may use it. If one sends, the faults depend on the seed only.
type network struct {
	mu     sync.Mutex // guards the network, and the fields of its links below some
	faults wire.Faults
	spares func(raw []byte) bool // reports whether only the delay affects a packet
	isCut  bool
	wire   *wire.Wire[link.Packet] // without their Data
	began  time.Time
	timer  *time.Timer               // delivers the next packet
	ends   map[netip.Addr][]*simLink // one per address, and the members of each group
}

func newNetwork(seed uint64, faults wire.Faults) *network {
	n := &network{faults: faults, spares: func([]byte) bool { return false }, wire: wire.New[link.Packet](rand.New(rand.NewPCG(seed, 0))),
		began: time.Now(), ends: map[netip.Addr][]*simLink{}}
	n.timer = time.AfterFunc(time.Hour, n.deliver)
	n.timer.Stop()
	return n
}

// end returns a link with an address, or one that receives what is sent to a group.
func (n *network) end(addr netip.Addr) *simLink {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &simLink{network: n, addr: addr, some: sync.NewCond(&n.mu)}
	n.ends[addr] = append(n.ends[addr], l)
	return l
}

// cut makes the network lose all packets.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isCut = true
}

// statistics returns the counts of the wire.
func (n *network) statistics() wire.Statistics {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wire.Statistics
}

func (n *network) send(from *simLink, to link.Destination, raw []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	faults := n.faults
	switch {
	case n.isCut:
		return
	case n.spares(raw):
		faults = wire.Faults{Delay: faults.Delay}
	}
	from.counters[link.SentPackets]++
	from.counters[link.SentBytes] += uint64(len(raw))
	n.wire.Send(time.Since(n.began), &faults, link.Packet{Src: from.addr, SrcPort: packet.Port, Dst: to.Addr, TOS: to.TOS, TTL: to.TTL}, raw)
}

// deliver delivers the packets whose time has come.
func (n *network) deliver() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Since(n.began)
	for p, ok := n.wire.Take(now); ok; p, ok = n.wire.Take(now) {
		for _, l := range n.ends[p.Of.Dst] {
			p.Of.Data = slices.Clone(p.Data)
			l.queue = append(l.queue, p.Of)
			l.some.Signal()
		}
		n.wire.Free(p.Data)
	}
	if next := n.wire.Next(); next != wire.Never {
		n.timer.Reset(next - now)
	}
}

// simLink is a link of a simulated network.
type simLink struct {
	network *network
	addr    netip.Addr
	closing sync.Once

	some        *sync.Cond // signaled when what Receive waits for changes
	queue       []link.Packet
	counters    link.Counters
	tap         link.Tap
	interrupted bool
	closed      bool
}

func (l *simLink) Addr() netip.Addr                         { return l.addr }
func (l *simLink) MTU() int                                 { return packet.MaxPayload }
func (l *simLink) Reach(netip.Addr) error                   { return nil }
func (l *simLink) SourcePort(uint32) uint16                 { return 0 }
func (l *simLink) AwaitRoom(uint16) error                   { return nil }
func (l *simLink) Join(group netip.Addr) (link.Link, error) { return l.network.end(group), nil }

// Status has the loopback interface, because GID table entries must have one.
func (l *simLink) Status() link.Status {
	s := link.Status{Send: link.Plain, Receive: link.Plain, Notes: []string{"the network is simulated"}}
	all, _ := net.Interfaces() // if this fails, a case fails because the interface is missing
	if i := slices.IndexFunc(all, func(i net.Interface) bool { return i.Flags&net.FlagLoopback != 0 }); i >= 0 {
		s.Interface = all[i].Name
	}
	return s
}

func (l *simLink) Send(e *link.Egress) error {
	var closed bool
	var tap link.Tap
	l.change(func() { closed, tap = l.closed, l.tap })
	for to, raw := range e.Sealed(l.addr, tap) {
		if !closed {
			l.network.send(l, to, raw)
		}
	}
	if closed {
		return net.ErrClosed
	}
	l.network.deliver()
	return nil
}

func (l *simLink) Receive(in *link.Ingress) error {
	for in.Packets = in.Packets[:0]; len(in.Packets) == 0; {
		queue, tap, err := l.await()
		if err != nil {
			return err
		}
		var c link.Counters
		for _, p := range queue {
			in.Put(p, tap, &c) // a tap may wait, so the network is not locked
		}
		l.change(func() {
			l.counters[link.ReceivedPackets] += c[link.ReceivedPackets]
			l.counters[link.DropICRC] += c[link.DropICRC]
		})
	}
	return nil
}

// await waits for packets and takes them.
func (l *simLink) await() (queue []link.Packet, tap link.Tap, err error) {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	for len(l.queue) == 0 && !l.closed && !l.interrupted {
		l.some.Wait()
	}
	switch {
	case l.closed:
		err = net.ErrClosed
	case l.interrupted:
		err = link.ErrInterrupted
	default:
		queue, l.queue = l.queue, nil
	}
	l.interrupted = false
	return queue, l.tap, err
}

// change calls f with the network locked, and wakes Receive.
func (l *simLink) change(f func()) {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	f()
	l.some.Broadcast()
}

func (l *simLink) Interrupt()        { l.change(func() { l.interrupted = true }) }
func (l *simLink) SetTap(t link.Tap) { l.change(func() { l.tap = t }) }

func (l *simLink) Counters() (c link.Counters) {
	l.change(func() { c = l.counters })
	return c
}

// lastPackets is how long the closing of a link waits for packets that are still on their way, so that the counters include
// all packets.
const lastPackets = 10 * time.Millisecond

func (l *simLink) Close() error {
	l.closing.Do(func() {
		if !l.addr.IsMulticast() { // a device holds a lock while it leaves a group
			time.Sleep(lastPackets)
		}
		l.change(func() {
			l.closed = true
			ends := l.network.ends
			ends[l.addr] = slices.DeleteFunc(ends[l.addr], func(other *simLink) bool { return other == l })
		})
	})
	return nil
}
