// Ports: the device's addresses. Each has one socket or, on hosts with enough processors, one for each completion vector: a
// queue pair's number is such that its packets arrive at the socket of its CQ's vector. So a goroutine that waits for a CQ
// usually knows where to receive (cq.home), and several goroutines receive at once for CQs of several vectors. Packets leave by the first socket,
// or by an outlet (outlets.go).

package softroce

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"slices"
	"sync"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/host"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/room"
	"github.com/rawverbs/rawverbs/verbs"
)

// port is one address of the device, with its place in the GID table. For verbs, all
// addresses belong to the device's port 1.
type port struct {
	link      link.Link
	receivers []*receiver // by completion vector; the first one's link is link
	gidIndex  int
	index     int             // in device.ports
	room      *room.Receivers // nil on a simulated network

	outlets sync.Map // of *outlet by source port
}

// portAt returns the port of a GID index, or nil.
func (d *device) portAt(gidIndex uint8) *port {
	i := slices.IndexFunc(d.ports, func(p *port) bool { return p.gidIndex == int(gidIndex) })
	if i < 0 {
		return nil
	}
	return d.ports[i]
}

func (p *port) gid() verbs.GID { return qpstate.GIDFrom(p.link.Addr().WithZone("")) }

// vectorsOfHost returns the number of completion vectors of a device: a processor for each, and as many for the programs, and
// for sending. Tests replace it.
var vectorsOfHost = func() int {
	switch n := host.Processors(); {
	case runtime.GOOS != "linux":
		return 1
	case n >= 16:
		return mostVectors
	case n >= 4:
		return 2
	}
	return 1
}

// mostVectors is a multiple of every number of vectors. So a burst whose packets are for queue pairs with equal numbers modulo
// mostVectors arrives at one socket, however many its device has.
const mostVectors = 4

// open opens a socket for each completion vector, with a receiver each. There is one socket if
//   - the system grants only small receive buffers: then little is in flight, and to wake several goroutines costs more than
//     they gain; or
//   - nobody can poll.
func (p *port) open(d *device) {
	buffer, vectors := p.link.Status().ReceiveBuffer, len(d.postDrivers)
	links := []link.Link{p.link}
	if vectors > 1 && buffer >= enoughFlight && mayPoll() && link.Trying(p.link) != nil {
		links = append(links, link.Split(p.link, vectors-1)...)
	}
	for i, l := range links {
		p.receivers = append(p.receivers, newReceiver(d, l, &d.postDrivers[i]))
	}
	if buffer > 0 {
		p.room = room.New(buffer, vectors) // a peer on this host may have so many sockets
	}
}

// receiverOf returns the receiver at which the packets of a peer for a queue pair arrive; package link chooses the socket by the
// same rule.
func (p *port) receiverOf(qpn uint32, peer netip.Addr, d *device) *receiver {
	by := qpn
	if !d.onThisHost(peer) {
		a := peer.As16()
		by = binary.BigEndian.Uint32(a[12:])
	}
	return p.receivers[by%uint32(len(p.receivers))]
}

// homeOf returns the receiver of a CQ whose queue pairs have no path, as those of UD. It is at the first address that is not
// link-local, or else at the first one. It returns nil if the device has no address.
func (d *device) homeOf(vector int) (home *receiver) {
	for _, p := range d.ports {
		if home == nil || home.link.Addr().IsLinkLocalUnicast() {
			home = p.receivers[vector%len(p.receivers)]
		}
	}
	return home
}

// oneVector leaves one receiver per port. The caller has stopped all receivers, and there are no objects.
func (d *device) oneVector() {
	d.vectors, d.receivers = 1, nil
	for _, p := range d.ports {
		p.closeOthers()
		p.receivers = slices.Clone(p.receivers[:1])
		d.receivers = append(d.receivers, p.receivers...)
	}
}

// closeOthers closes all sockets but the first one.
func (p *port) closeOthers() {
	for _, r := range p.receivers {
		if r.link != p.link {
			r.link.Close() // nothing can be done about an error here
		}
	}
}

func closePorts(ports []*port) {
	for _, p := range ports {
		p.link.Close() // nothing can be done about an error here
		p.closeOthers()
		if p.room != nil {
			p.room.Close()
		}
	}
}

func smallestMTU(ports []*port) qpstate.MTU {
	smallest := qpstate.MTU4096
	for _, p := range ports {
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
	if len(d.postDrivers) > 1 && d.onThisHost(peer) {
		return mostVectors
	}
	return 0
}

// joins reports whether a burst to a peer arrives as one datagram: over loopback, where both ends
// are of this package.
func (p *port) joins(peer netip.Addr) bool {
	s := p.link.Status()
	return peer.IsLoopback() && s.Send == link.Segmented && s.Receive == link.Segmented
}
