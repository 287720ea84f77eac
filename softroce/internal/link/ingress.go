// This file is a batch of packets that came, and the check of their ICRCs.

package link

import (
	"net/netip"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Packet is a packet that came and is sound: its ICRC was checked, its headers
// were not.
type Packet struct {
	Data     []byte // BTH to ICRC
	Src, Dst netip.Addr
	SrcPort  uint16
	ID       uint16       // identification of its IPv4 header
	Match    packet.Match // how much the ICRC proved, with what is known of the sender
	TOS, TTL uint8        // type of service and time to live, or their IPv6 like; 0 if not known
}

// Ingress is packets that came, in one buffer. One goroutine at a time uses it;
// it is worth keeping, since its memory is, and it remembers peers.
type Ingress struct {
	// Packets is what the last Receive brought. All of it, Data too, is valid
	// until the next.
	Packets []Packet

	flows   flowCache
	senders senderCache
	clock   func() time.Duration // since any fixed moment
	sys     receiveScratch
	flights []*flight // of a simulated network: what Packets views
}

// NewIngress returns an empty Ingress.
func NewIngress() *Ingress {
	return &Ingress{Packets: make([]Packet, 0, 256), clock: uptime}
}

var started = time.Now()

func uptime() time.Duration { return time.Since(started) }

// datagram is what a receive call gave: one packet, or several joined by GRO.
type datagram struct {
	data     []byte
	size     int // bytes of each packet but the last
	src      netip.AddrPort
	tos, ttl uint8
}

// take checks the packets of d and appends the sound ones.
//
// The identifications that the ICRCs cover are likely to count from 0, a burst
// of one GSO send; to be 0 throughout, packets sent alone and joined on the way;
// or to go on where the last datagram of that address ended, since rxe numbers all
// it sends. Verify finds any other, and the sender's past says whether that can be.
func (in *Ingress) take(d datagram, local netip.AddrPort, tap Tap, t *tally) {
	if d.size <= 0 || d.size > len(d.data) {
		d.size = len(d.data)
	}
	if len(d.data) == 0 {
		t.drops[DropLength]++
		return
	}
	p, err := in.flows.peer(local, d.src, d.src, local)
	if err != nil {
		t.drops[DropSource]++
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
			t.drops[DropLength]++
			continue
		}
		m, id := p.flow.Verify(raw, expect)
		why, before := DropICRC, s.next
		if numbered && m.OK() {
			m, why = s.judge(m, id, at), DropIdentification
		}
		t.matches[m]++
		if !m.OK() {
			t.drops[why]++
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
		t.packets++
		t.bytes += uint64(len(raw))
		if tap != nil {
			tap(false, packet.Frame{Src: d.src, Dst: local, ID: id, TOS: d.tos, TTL: d.ttl}, raw)
		}
		in.Packets = append(in.Packets, Packet{
			Data: raw[:len(raw):len(raw)], Src: d.src.Addr(), Dst: local.Addr(), SrcPort: d.src.Port(),
			ID: id, Match: m, TOS: d.tos, TTL: d.ttl,
		})
	}
	if s.counts {
		if at == 0 { // it has only now shown that
			at = in.clock()
		}
		s.seen = at
	}
}

// minPacket is the shortest packet: a BTH and an ICRC.
const minPacket = 16
