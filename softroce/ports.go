// Ports: the device's addresses. Each has one socket or, on hosts with enough processors, more (shards.go). All packets
// leave by the first one.

package softroce

import (
	"net/netip"
	"slices"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/room"
	"github.com/rawverbs/rawverbs/verbs"
)

// port is one address of the device, with its place in the GID table. For verbs, all
// addresses belong to the device's port 1.
type port struct {
	link   link.Link
	shards *link.Shards // nil: the address has one socket
	index  int
	room   *room.Receivers // nil on a simulated network

	outlets outlets
}

func (p *port) gid() verbs.GID { return qpstate.GIDFrom(p.link.Addr().WithZone("")) }

// split opens the sockets of the port's shards, unless
//   - the system grants only small receive buffers: then little is in flight, and to wake several goroutines costs more than
//     they gain; or
//   - nobody can poll: then a receiver's load cannot be measured.
func (p *port) split(shards int) {
	buffer := p.link.Status().ReceiveBuffer
	if buffer >= enoughFlight && mayPoll() && link.Trying(p.link) != nil {
		p.shards = link.Split(p.link, shards)
	}
	if buffer > 0 {
		sockets := 1 // of a peer on this host, at most
		if shards > 1 {
			sockets += shards
		}
		p.room = room.New(buffer, sockets)
	}
}

// unsplit leaves one receiver per port. The caller has stopped all receivers, and there are no queue pairs.
func (d *device) unsplit() {
	d.receivers = slices.DeleteFunc(d.receivers, func(r *receiver) bool { return r.shards != nil && r != r.shards.first })
	for _, r := range d.receivers {
		r.shards = nil
	}
	for _, p := range d.ports {
		if p != nil && p.shards != nil {
			_ = p.shards.Spread(false) // it fails only if the device is closed
			p.shards.Close()
			p.shards = nil
		}
	}
}

// receivers makes the receivers of the port. It is called once.
func (p *port) receivers(d *device) []*receiver {
	first := newReceiver(d, p.link, &d.posters[0])
	if p.shards == nil {
		return []*receiver{first}
	}
	s := &shards{d: d, links: p.shards, first: first}
	first.shards = s
	for i, l := range p.shards.Links {
		r := newReceiver(d, l, &d.posters[i])
		r.shards = s
		s.others = append(s.others, r)
	}
	return append([]*receiver{first}, s.others...)
}

func closePorts(ports []*port) {
	for _, p := range ports {
		if p == nil {
			continue
		}
		p.link.Close() // nothing can be done about an error here
		if p.shards != nil {
			p.shards.Close()
		}
		if p.room != nil {
			p.room.Close()
		}
	}
}

func smallestMTU(ports []*port) qpstate.MTU {
	smallest := qpstate.MTU4096
	for _, p := range ports {
		if p == nil {
			continue
		}
		if mtu, ok := qpstate.MTUFor(p.link.MTU()); ok {
			smallest = min(smallest, mtu)
		}
	}
	return smallest
}

// enoughFlight is the number of bytes in flight beyond which throughput over loopback does not grow.
const enoughFlight = 1 << 20

// flight returns how many bytes all queue pairs of RC together may have in flight to a peer. It assumes
// that the peer's receive buffer is as large as this side's. Over loopback more gains nothing, and does not fit into
// the processor's cache.
func (p *port) flight(peer netip.Addr) int {
	const least = 64 << 10
	buffer := p.link.Status().ReceiveBuffer
	if buffer == 0 || peer.IsLoopback() {
		buffer = min(max(buffer, least), enoughFlight)
	}
	return buffer
}

// shardsOf returns over how many sockets a peer may spread the packets that it gets, by queue pair number.
func (d *device) shardsOf(peer netip.Addr) int {
	if n := len(d.posters); n > 1 && d.onThisHost(peer) {
		return n
	}
	return 0
}

// joins reports whether a burst to a peer arrives as one datagram: over loopback, where both ends
// are of this package.
func (p *port) joins(peer netip.Addr) bool {
	s := p.link.Status()
	return peer.IsLoopback() && s.Send == link.Segmented && s.Receive == link.Segmented
}
