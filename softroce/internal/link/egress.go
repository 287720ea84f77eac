// This file is a batch of packets on their way out.

package link

import (
	"net/netip"

	"github.com/rawverbs/rawverbs/softroce/internal/wire"
)

// What one GSO send can carry.
const (
	// maxBurst is the longest UDP payload over IPv4 in bytes.
	maxBurst = 65507
	// maxBurstPackets is UDP_MAX_SEGMENTS of Linux before 6.9; since then it is
	// wire.MaxSegments.
	maxBurstPackets = 64
)

// Egress is packets on their way out, in one buffer. One goroutine at a time
// uses it; it is worth keeping, since all a send needs is allocated with it.
type Egress struct {
	buf    []byte
	used   int
	bursts []burst
	flows  flowCache
	sys    sendScratch
}

// burst is consecutive packets to one destination, all of one size but the
// last, which may be shorter: what GSO sends at once.
type burst struct {
	to      Destination
	start   int // offset in the buffer
	len     int // bytes of all packets
	size    int // bytes of each packet but the last
	packets int
}

// NewEgress returns an empty Egress with a buffer of size bytes, or of
// wire.MaxPacket if that is more.
func NewEgress(size int) *Egress {
	return &Egress{buf: make([]byte, max(size, wire.MaxPacket)), bursts: make([]burst, 0, 64)}
}

// Room returns the free part of the buffer: where the next packets go.
func (e *Egress) Room() []byte { return e.buf[e.used:] }

// Empty says whether there is nothing to send.
func (e *Egress) Empty() bool { return len(e.bursts) == 0 }

// Packets returns how many packets there are to send.
func (e *Egress) Packets() int {
	n := 0
	for i := range e.bursts {
		n += e.bursts[i].packets
	}
	return n
}

// Add says that the first n bytes of Room are packets for to, each of size bytes
// but the last, which may be shorter. n is positive, and no packet is shorter
// than 16 bytes. Their ICRCs are of no account: Send writes them.
func (e *Egress) Add(to Destination, n, size int) {
	size = min(size, n)
	for n > 0 {
		b := e.last(to, n, size)
		take := min(n, size*min((maxBurst-b.len)/size, maxBurstPackets-b.packets))
		b.len += take
		b.packets += (take + size - 1) / size
		e.used += take
		n -= take
	}
}

// last returns the burst that the next packet belongs to: the last one if that
// can grow, else a new one.
func (e *Egress) last(to Destination, n, size int) *burst {
	if i := len(e.bursts) - 1; i >= 0 {
		b := &e.bursts[i]
		full := b.len == b.packets*b.size // has no shorter packet at its end
		fits := size == b.size || n == size && size < b.size
		if full && fits && b.packets < maxBurstPackets && b.len+size <= maxBurst && b.to == to {
			return b
		}
	}
	e.bursts = append(e.bursts, burst{to: to, start: e.used, size: size})
	return &e.bursts[len(e.bursts)-1]
}

// reset empties e.
func (e *Egress) reset() {
	e.used, e.bursts = 0, e.bursts[:0]
}

// packet returns packet i of b.
func (e *Egress) packet(b *burst, i int) []byte {
	p := e.buf[b.start+i*b.size : b.start+b.len]
	return p[:min(len(p), b.size)]
}

// seal seals all packets of b, as packets of GSO (segmented) or each sent alone,
// and shows them to tap if that is not nil.
func (e *Egress) seal(b *burst, local netip.AddrPort, segmented bool, tap Tap) error {
	remote := netip.AddrPortFrom(b.to.Addr, wire.Port)
	p, err := e.flows.peer(local, remote, local, remote)
	if err != nil {
		return err
	}
	for i := range b.packets {
		id := uint16(0)
		if segmented {
			id = uint16(i)
		}
		packet := e.packet(b, i)
		p.flow.Seal(packet, id)
		if tap != nil {
			tap(true, wire.Frame{Src: local, Dst: remote, ID: id, TOS: b.to.TOS, TTL: b.to.TTL}, packet)
		}
	}
	return nil
}
