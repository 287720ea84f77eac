// This file is a simulated network: links in memory, with the faults of real
// ones. It runs in the time of package time, so in that of testing/synctest too.

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

// Faults is what a simulated network does to packets. The zero Faults is a
// network without any, which delivers at once.
type Faults struct {
	Loss      float64 // probability that a packet is lost
	Duplicate float64 // that it comes twice
	Reorder   float64 // that it is held back for HoldBack, and later ones overtake it
	Corrupt   float64 // that one bit of it is wrong

	Delay    time.Duration // of each packet
	HoldBack time.Duration // see Reorder; 0 for 100 µs
	Rate     int           // bytes a second that one address can send, 0 for no limit
}

// usualTTL is that of most systems.
const usualTTL = 64

const defaultHoldBack = 100 * time.Microsecond

// NetworkConfig is what a simulated network is made of.
type NetworkConfig struct {
	Seed   uint64 // of all chance
	MTU    int    // path MTU, 0 for 4096
	Buffer int    // bytes that may wait at a receiver, or at a sender for the rate; 0 for 4 MiB
	Faults Faults

	// Spare says of a packet that no fault befalls it, but for delay and rate; nil
	// for none. It must not call the network.
	Spare func(raw []byte) bool
}

// NetworkStatistics is what a network did to packets.
type NetworkStatistics struct {
	Sent        uint64 // packets given to it
	Lost        uint64 // by chance
	Filtered    uint64 // by the filter
	Unreachable uint64 // nobody has the address
	Overflowed  uint64 // waited for the rate in too long a queue
	Duplicated  uint64
	Reordered   uint64
	Corrupted   uint64
}

// Network is a simulated network. Its methods may be called by several
// goroutines at once. With one sender, what happens depends on the seed alone.
type Network struct {
	mu         sync.Mutex
	cfg        NetworkConfig
	rand       *rand.Rand
	filter     func(src, dst netip.Addr, raw []byte) bool
	statistics NetworkStatistics
	ends       map[netip.Addr]*simulated
	flying     flights
	order      uint64
	timer      *time.Timer // for the first of flying; nil until there was one
	free       []*flight
}

// flight is a packet on its way.
type flight struct {
	data     [packet.MaxPacket]byte
	len      int
	src, dst netip.Addr
	tos, ttl uint8
	due      time.Time
	order    uint64 // of those due at the same time
}

// NewNetwork returns a network without links.
func NewNetwork(cfg NetworkConfig) *Network {
	if cfg.MTU == 0 {
		cfg.MTU = packet.MaxPayload
	}
	if cfg.Buffer == 0 {
		cfg.Buffer = defaultReceiveBuffer
	}
	return &Network{cfg: cfg, rand: rand.New(rand.NewPCG(cfg.Seed, 0)), ends: make(map[netip.Addr]*simulated)}
}

// Open returns a link with address addr, which nobody else may have: EADDRINUSE.
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

// SetFaults changes the faults for packets sent from now on.
func (n *Network) SetFaults(f Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cfg.Faults = f
}

// SetFilter sets a function that says of each packet whether it may go on, nil
// for all: to lose one packet in particular. It must not call the network.
func (n *Network) SetFilter(pass func(src, dst netip.Addr, raw []byte) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.filter = pass
}

// Statistics counts since the network was made.
func (n *Network) Statistics() NetworkStatistics {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.statistics
}

// send takes a sealed packet from l. The lock is held.
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

// transferTime returns how long size bytes take at rate bytes a second.
func transferTime(size, rate int) time.Duration {
	return time.Duration(float64(size) / float64(rate) * float64(time.Second))
}

// happens says whether what has probability p does, this time. A fault that is
// not wanted takes nothing from the sequence of chance.
func (n *Network) happens(p float64) bool { return p > 0 && n.rand.Float64() < p }

// corrupt turns over one bit, of those that the ICRC covers or of the ICRC.
func (p *flight) corrupt(r *rand.Rand) {
	const uncovered = 4 // of the BTH: FECN and BECN
	i := r.IntN(p.len - 1)
	if i >= uncovered {
		i++
	}
	p.data[i] ^= 1 << r.IntN(8)
}

// deliver delivers what is due, and sees to it that it is called again when the
// next packet is. The lock is held.
func (n *Network) deliver(now time.Time) {
	for len(n.flying) > 0 && !n.flying[0].due.After(now) {
		p := heap.Pop(&n.flying).(*flight)
		l := n.ends[p.dst]
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

// flight returns a buffer for a packet. The lock is held.
func (n *Network) flight() *flight {
	if i := len(n.free) - 1; i >= 0 {
		p := n.free[i]
		n.free = n.free[:i]
		return p
	}
	return new(flight)
}

// release takes a buffer back. The lock is held.
func (n *Network) release(p *flight) { n.free = append(n.free, p) }

// flights is a heap: what is due first is first.
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
