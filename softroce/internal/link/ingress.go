// Ingress: a batch of received packets, and the check of their ICRCs.
//
// # Expected identifications
//
// The ICRC covers the IPv4 identification, which a socket does not show. take therefore
// checks an ICRC against the identification that it expects for the packet:
//
//   - 0, 1, 2, … in a datagram that was one GSO send,
//   - 0 in packets that were sent alone and joined on the way (GRO),
//   - the number after the last packet of that address, because rdma_rxe numbers all
//     packets to an address.
//
// packet.Flow.Verify also finds any other identification. sender.judge then decides
// whether the sender may have used it.

package link

import (
	"net/netip"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Packet is a received packet with a correct ICRC. Its headers are not checked.
type Packet = packet.Received

// Ingress holds the packets of one Receive. Reuse an Ingress, because it keeps its buffers
// and remembers peers. It is for one goroutine at a time.
type Ingress struct {
	// Packets has the packets of the last Receive. They and their Data are valid until
	// the next Receive.
	Packets []Packet

	// Emptied is set by a Receive that found the socket empty, before or after it took Packets. The caller clears it.
	Emptied bool

	flows   flowCache
	senders senderCache
	clock   func() time.Duration // time since a fixed moment
	sys     receiveScratch
}

// NewIngress returns an empty Ingress.
func NewIngress() *Ingress {
	return &Ingress{Packets: make([]Packet, 0, 256), clock: uptime}
}

var started = time.Now()

func uptime() time.Duration { return time.Since(started) }

// datagram is one received datagram: one packet, or several packets joined by GRO.
type datagram struct {
	data     []byte
	size     int // bytes per packet; the last may have fewer
	src      netip.AddrPort
	tos, ttl uint8
}

// take checks the packets of d and appends those with a correct ICRC to in.Packets.
func (in *Ingress) take(d datagram, local netip.AddrPort, tap Tap, t *Counters) {
	if d.size <= 0 || d.size > len(d.data) {
		d.size = len(d.data)
	}
	if len(d.data) == 0 {
		t[DropLength]++
		return
	}
	// Any local user can bind another port of a peer's loopback address. The port of devices is the
	// peer's alone. From other hosts any port is good: rdma_rxe has one for each queue pair.
	if d.src.Port() != packet.Port && d.src.Addr().IsLoopback() {
		t[DropPort]++
		return
	}
	p, err := in.flows.peer(local, d.src, d.src, local)
	if err != nil {
		t[DropSource]++
		return
	}
	s := in.senders.of(d.src.Addr())
	numbered, at := local.Addr().Is4(), time.Duration(0)
	if s.counts {
		at = in.clock()
	}
	expect := s.expected()
	step, last := uint16(1), packet.NoMatch
	for rest := d.data; len(rest) > 0; {
		raw := rest[:min(d.size, len(rest))]
		rest = rest[len(raw):]
		if len(raw) < minPacket {
			t[DropLength]++
			continue
		}
		m, id := p.flow.Verify(raw, expect)
		why, before := DropICRC, s.next
		if numbered && m.OK() {
			m, why = s.judge(m, id, at), DropIdentification
		}
		t[Matched+Counter(m)]++
		if !m.OK() {
			t[why]++
			expect += step
			continue
		}
		if last.OK() {
			step = 1
			if id == before-1 {
				step = 0
			}
		}
		expect, last = id+step, m
		t[ReceivedPackets]++
		t[ReceivedBytes] += uint64(len(raw))
		if tap != nil {
			tap(false, packet.Frame{Src: d.src, Dst: local, ID: id, TOS: d.tos, TTL: d.ttl}, raw)
		}
		in.Packets = append(in.Packets, Packet{
			Data: raw[:len(raw):len(raw)], Src: d.src.Addr(), Dst: local.Addr(), SrcPort: d.src.Port(),
			ID: id, Match: m, TOS: d.tos, TTL: d.ttl,
		})
	}
	if s.counts {
		if at == 0 { // counts became true in this datagram
			at = in.clock()
		}
		s.seen = at
	}
}

// Put does for a packet with an address of the link as Dst what Receive of a Socket does: it checks the ICRC, appends a good
// packet to Packets, and counts in c. It is for links that are not Sockets.
func (in *Ingress) Put(p Packet, tap Tap, c *Counters) {
	d := datagram{data: p.Data, src: netip.AddrPortFrom(p.Src, p.SrcPort), tos: p.TOS, ttl: p.TTL}
	in.take(d, netip.AddrPortFrom(p.Dst, packet.Port), tap, c)
}

// minPacket is the length of the shortest packet: a BTH and an ICRC.
const minPacket = 16
