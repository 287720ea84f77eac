// Network: a simulated network of links in memory, with the faults of real networks. It
// uses the clock of package time, and therefore works with testing/synctest.

package link

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Faults are the faults of a simulated network. With the zero Faults the network delivers
// every packet at once.
type Faults struct {
	Loss      float64 // probability that a packet is lost
	Duplicate float64 // probability that a packet arrives twice
	Reorder   float64 // probability that a packet is delayed by HoldBack, so that later packets overtake it
	Corrupt   float64 // probability that one bit of a packet is changed

	Delay    time.Duration // delay of each packet
	HoldBack time.Duration // extra delay of a reordered packet; 0: 100 µs
	Rate     int           // bytes per second that one address can send; 0: no limit
}

// usualTTL is the default time to live of most systems.
const usualTTL = 64

const defaultHoldBack = 100 * time.Microsecond

// NetworkConfig configures a simulated network.
type NetworkConfig struct {
	Seed   uint64 // seed of all random decisions
	MTU    int    // path MTU; 0: 4096
	Buffer int    // bytes that may wait at a receiver, or at a sender because of Rate; 0: 4 MiB
	Faults Faults

	// Spare, if not nil, returns true for a packet that only Delay and Rate affect. It
	// must not call the network.
	Spare func(raw []byte) bool
}

// NetworkStatistics counts the packets of a network.
type NetworkStatistics struct {
	Sent        uint64 // packets that links sent
	Lost        uint64 // lost at random
	Filtered    uint64 // dropped by the filter
	Unreachable uint64 // no link has the destination address
	Overflowed  uint64 // dropped because the sender's queue was full, see Rate
	Duplicated  uint64
	Reordered   uint64
	Corrupted   uint64
}

// Network is a simulated network. Several goroutines may call its methods at once. With
// one sender, the faults depend only on the seed.
//
// mu guards the Network and the queues of its links.
type Network struct {
	mu         sync.Mutex
	cfg        NetworkConfig
	rand       *rand.Rand
	filter     func(src, dst netip.Addr, raw []byte) bool
	statistics NetworkStatistics
	ends       map[netip.Addr]*simulated
	groups     map[netip.Addr][]*simulated // their members
	flying     flights
	order      uint64
	timer      *time.Timer // delivers the first packet of flying; nil before the first delay
	free       []*flight
}

// flight is a packet in transit.
type flight struct {
	data     [packet.MaxPacket]byte
	len      int
	src, dst netip.Addr
	tos, ttl uint8
	due      time.Time
	order    uint64 // orders packets that are due at the same time
}

// NewNetwork returns a network without links.
func NewNetwork(cfg NetworkConfig) *Network {
	if cfg.MTU == 0 {
		cfg.MTU = packet.MaxPayload
	}
	if cfg.Buffer == 0 {
		cfg.Buffer = defaultReceiveBuffer
	}
	return &Network{cfg: cfg, rand: rand.New(rand.NewPCG(cfg.Seed, 0)), ends: make(map[netip.Addr]*simulated),
		groups: make(map[netip.Addr][]*simulated)}
}

// Open returns a link with the address addr. The error is an *AddrError: EADDRINUSE if
// another link has addr, EADDRNOTAVAIL if addr is not a unicast address.
func (n *Network) Open(addr netip.Addr) (Link, error) {
	addr = addr.Unmap()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() {
		return nil, &AddrError{Addr: addr, Err: syscall.EADDRNOTAVAIL, Hint: "one unicast address"}
	}
	if n.ends[addr] != nil {
		return nil, &AddrError{Addr: addr, Err: syscall.EADDRINUSE, Hint: "another address of the simulated network"}
	}
	l := &simulated{network: n, local: netip.AddrPortFrom(addr, packet.Port), some: sync.NewCond(&n.mu)}
	n.ends[addr] = l
	return l, nil
}

// SetFaults sets the faults of packets that are sent after the call.
func (n *Network) SetFaults(f Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cfg.Faults = f
}

// SetFilter sets a function that returns false for each packet to drop; nil removes it.
// A test uses it to lose a particular packet. The function must not call the network.
func (n *Network) SetFilter(pass func(src, dst netip.Addr, raw []byte) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.filter = pass
}

// Statistics returns the counts since the network was created.
func (n *Network) Statistics() NetworkStatistics {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.statistics
}

// send takes a packet with its ICRC from l. The caller holds n.mu.
func (n *Network) send(l *simulated, to Destination, raw []byte, now time.Time) {
	n.statistics.Sent++
	if n.filter != nil && !n.filter(l.local.Addr(), to.Addr, raw) {
		n.statistics.Filtered++
		return
	}
	f := &n.cfg.Faults
	leaves := now
	if f.Rate > 0 {
		if l.idle.After(now) {
			leaves = l.idle
		}
		if leaves.Sub(now) > transferTime(n.cfg.Buffer, f.Rate) {
			n.statistics.Overflowed++
			return
		}
		leaves = leaves.Add(transferTime(len(raw), f.Rate))
		l.idle = leaves
	}
	if n.cfg.Spare != nil && n.cfg.Spare(raw) {
		f = &Faults{Delay: f.Delay}
	}
	copies := 1
	switch {
	case n.happens(f.Loss):
		n.statistics.Lost++
		return
	case n.happens(f.Duplicate):
		n.statistics.Duplicated++
		copies = 2
	}
	for range copies {
		p := n.flight()
		p.len = copy(p.data[:], raw)
		p.src, p.dst, p.tos, p.ttl = l.local.Addr(), to.Addr, to.TOS, cmp.Or(to.TTL, usualTTL)
		p.due = leaves.Add(f.Delay)
		if n.happens(f.Reorder) {
			n.statistics.Reordered++
			hold := f.HoldBack
			if hold == 0 {
				hold = defaultHoldBack
			}
			p.due = p.due.Add(hold)
		}
		if n.happens(f.Corrupt) {
			n.statistics.Corrupted++
			p.corrupt(n.rand)
		}
		n.order++
		p.order = n.order
		heap.Push(&n.flying, p)
	}
}

// transferTime returns the time of size bytes at rate bytes per second.
func transferTime(size, rate int) time.Duration {
	return time.Duration(float64(size) / float64(rate) * float64(time.Second))
}

// happens returns true with probability p. A probability of 0 does not use the random
// sequence, so an absent fault does not change the others.
func (n *Network) happens(p float64) bool { return p > 0 && n.rand.Float64() < p }

// corrupt flips one bit of the ICRC or of the bytes that the ICRC covers.
func (p *flight) corrupt(r *rand.Rand) {
	const uncovered = 4 // the byte of the BTH with FECN and BECN, which the ICRC does not cover
	i := r.IntN(p.len - 1)
	if i >= uncovered {
		i++
	}
	p.data[i] ^= 1 << r.IntN(8)
}

// deliver delivers the packets that are due. It sets the timer to run again when the next
// packet is due. The caller holds n.mu.
func (n *Network) deliver(now time.Time) {
	for len(n.flying) > 0 && !n.flying[0].due.After(now) {
		p := heap.Pop(&n.flying).(*flight)
		if p.dst.IsMulticast() {
			for _, l := range n.groups[p.dst] {
				copied := n.flight()
				*copied = *p
				n.hand(copied, l)
			}
			n.release(p)
			continue
		}
		n.hand(p, n.ends[p.dst])
	}
	if len(n.flying) == 0 {
		return
	}
	wait := n.flying[0].due.Sub(now)
	if n.timer == nil {
		n.timer = time.AfterFunc(wait, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.deliver(time.Now())
		})
		return
	}
	n.timer.Reset(wait)
}

// hand puts a packet into a receiver's queue. The caller holds n.mu.
func (n *Network) hand(p *flight, l *simulated) {
	switch {
	case l == nil:
		n.statistics.Unreachable++
		n.release(p)
	case l.waiting+p.len > n.cfg.Buffer:
		add(&l.counters.dropped[DropOverflow], 1)
		n.release(p)
	default:
		l.queue = append(l.queue, p)
		l.waiting += p.len
		l.some.Signal()
	}
}

// flight returns a buffer for a packet. The caller holds n.mu.
func (n *Network) flight() *flight {
	if i := len(n.free) - 1; i >= 0 {
		p := n.free[i]
		n.free = n.free[:i]
		return p
	}
	return new(flight)
}

// release returns a buffer to the free list. The caller holds n.mu.
func (n *Network) release(p *flight) { n.free = append(n.free, p) }

// flights is a heap; the packet that is due first is at the top.
type flights []*flight

func (f flights) Len() int      { return len(f) }
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)   { *f = append(*f, x.(*flight)) }

func (f flights) Less(i, j int) bool {
	if !f[i].due.Equal(f[j].due) {
		return f[i].due.Before(f[j].due)
	}
	return f[i].order < f[j].order
}

func (f *flights) Pop() any {
	i := len(*f) - 1
	p := (*f)[i]
	(*f)[i] = nil
	*f = (*f)[:i]
	return p
}
