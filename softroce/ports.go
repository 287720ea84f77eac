// Ports: the device's addresses. If the host has enough processors, several sockets receive for an address (shards), each with
// its own receiver, so that several processors work on what arrives. Package link has the rule by which the sockets share
// the packets. All packets are sent by the first one.

package softroce

import (
	"net/netip"
	"slices"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/host"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/room"
	"github.com/rawverbs/rawverbs/verbs"
)

// port is one address of the device, with its place in the GID table. For verbs, all
// addresses belong to the device's port 1.
type port struct {
	link   link.Link
	shards []link.Link // they only receive
	index  int
	room   *room.Receivers // nil on a simulated network
}

func (p *port) gid() verbs.GID { return qpstate.GIDFrom(p.link.Addr().WithZone("")) }

// mostShards limits the sockets of an address. Sending, and the work of the programs, need processors too.
const mostShards = 4

// shardsPerPort returns the number of sockets of each address. It must be the same in all processes of a host. Tests
// replace it.
var shardsPerPort = func() int { return min(max(1, host.Processors()/2), mostShards) }

// split opens the port's shards, unless the system grants only small receive buffers: then little is in flight, and to wake
// several goroutines costs more than they gain.
func (p *port) split(shards int) {
	buffer := p.link.Status().ReceiveBuffer
	if buffer >= enoughFlight {
		p.shards = link.Split(p.link, shards)
	}
	if buffer > 0 {
		p.room = room.New(buffer, shards)
	}
}

// unsplit closes the port's shards.
func (p *port) unsplit() {
	for _, l := range p.shards {
		l.Close() // nothing can be done about an error here
	}
	p.shards = nil
}

// receives reports whether the link is the only one of one of the device's ports, or one of several.
func (d *device) receives(l link.Link) bool {
	return slices.ContainsFunc(d.ports, func(p *port) bool { return p != nil && slices.Contains(p.links(), l) })
}

// links returns the links that receive for the port.
func (p *port) links() []link.Link { return append([]link.Link{p.link}, p.shards...) }

func closePorts(ports []*port) {
	for _, p := range ports {
		if p == nil {
			continue
		}
		for _, l := range p.links() {
			l.Close() // nothing can be done about an error here
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

// joins reports whether a burst to a peer arrives as one datagram: over loopback, where both ends
// are of this package.
func (p *port) joins(peer netip.Addr) bool {
	s := p.link.Status()
	return peer.IsLoopback() && s.Send == link.Segmented && s.Receive == link.Segmented
}
