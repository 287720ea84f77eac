// simulated: one link of a simulated network.

package link

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// simulated is a Link of a Network. All its packets have identification 0. Received
// packets are checked like those of a Socket: over IPv4 the check misses one damaged
// packet in 65,536, over IPv6 none.
type simulated struct {
	network  *Network
	local    netip.AddrPort
	tap      atomic.Pointer[Tap]
	counters counters

	// Guarded by the network's lock.
	some        *sync.Cond // signaled when queue, interrupted or closed changes
	queue       []*flight
	waiting     int // bytes in queue
	idle        time.Time
	interrupted bool
	closed      bool
}

func (l *simulated) Addr() netip.Addr { return l.local.Addr() }
func (l *simulated) MTU() int         { return l.network.cfg.MTU }

// Join returns a link that receives what is sent to a group.
func (l *simulated) Join(group netip.Addr) (Link, error) {
	n := l.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.closed {
		return nil, net.ErrClosed
	}
	g := &simulated{network: n, local: netip.AddrPortFrom(group, packet.Port), some: sync.NewCond(&n.mu)}
	n.groups[group] = append(n.groups[group], g)
	return g, nil
}

// Reach always returns nil. Packets to an address that no link has are dropped.
func (l *simulated) Reach(netip.Addr) error { return nil }

// AwaitRoom returns at once: there is always room.
func (l *simulated) AwaitRoom(uint16) error { return nil }

// SourcePort returns 0: a simulated network has one way.
func (l *simulated) SourcePort(uint32) uint16 { return 0 }

func (l *simulated) SetTap(t Tap) { storeTap(&l.tap, t) }

func (l *simulated) Counters() Counters { return l.counters.snapshot() }

func (l *simulated) Status() Status {
	return Status{
		Addr: l.Addr(), MTU: l.MTU(), Send: Plain, Receive: Plain,
		Interop: InteropOff, InteropReason: "the network is simulated",
	}
}

func (l *simulated) Send(e *Egress) error {
	defer e.reset()
	n := l.network
	var report *SendError
	var packets, bytes uint64
	tap := loadTap(&l.tap)
	for i := range e.bursts {
		b := &e.bursts[i]
		err := e.seal(b, l.local, sealedAlone, tap)
		if err == nil && len(b.packet(0)) > n.cfg.MTU+packet.MaxPacket-packet.MaxPayload {
			err = syscall.EMSGSIZE
		}
		if err != nil {
			lost(&report, b.to.Addr, b.packets, err)
			continue
		}
		if !l.send(b) {
			return net.ErrClosed
		}
		packets += uint64(b.packets)
		bytes += uint64(len(b.data))
	}
	l.counters.sent(packets, bytes, 0, 1)
	if report != nil {
		add(&l.counters.sendErrors, uint64(report.Packets))
		return report
	}
	return nil
}

// send passes b to the network. It returns false if the link is closed.
func (l *simulated) send(b *burst) bool {
	n := l.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.closed {
		return false
	}
	now := time.Now()
	for i := range b.packets {
		n.send(l, b.to, b.packet(i), now)
	}
	n.deliver(now)
	return true
}

func (l *simulated) Receive(in *Ingress) error {
	for {
		in.Packets = in.Packets[:0]
		if err := l.take(in); err != nil {
			return err
		}
		var t tally
		tap := loadTap(&l.tap)
		for _, p := range in.flights {
			d := datagram{data: p.data[:p.len], src: netip.AddrPortFrom(p.src, packet.Port), tos: p.tos, ttl: p.ttl}
			in.take(d, l.local, tap, &t)
		}
		l.counters.received(&t)
		if len(in.Packets) > 0 {
			return nil
		}
	}
}

// take waits for packets and moves them from the queue to in. It first returns the
// buffers of in to the network.
func (l *simulated) take(in *Ingress) error {
	n := l.network
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range in.flights {
		n.release(p)
	}
	clear(in.flights)
	in.flights = in.flights[:0]
	for len(l.queue) == 0 && !l.closed && !l.interrupted {
		l.some.Wait()
	}
	switch {
	case l.closed:
		return net.ErrClosed
	case l.interrupted:
		l.interrupted = false
		return ErrInterrupted
	}
	in.flights, l.queue = l.queue, in.flights
	l.waiting = 0
	return nil
}

func (l *simulated) Close() error {
	n := l.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if addr := l.local.Addr(); addr.IsMulticast() {
		n.groups[addr] = slices.DeleteFunc(n.groups[addr], func(other *simulated) bool { return other == l })
	} else {
		delete(n.ends, addr)
	}
	for _, p := range l.queue {
		n.release(p)
	}
	l.queue, l.waiting = nil, 0
	l.some.Broadcast()
	return nil
}

func (l *simulated) Interrupt() {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	l.interrupted = true
	l.some.Broadcast()
}
