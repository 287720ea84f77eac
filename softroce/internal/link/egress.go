// This file is a batch of packets on their way out.

package link

import (
	"net/netip"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// What one burst may be. Add makes several of what is more.
const (
	// MaxBurst is the most bytes: the longest UDP payload over IPv4.
	MaxBurst = 65535 - 20 - 8
	// MaxBurstPackets is the most packets: UDP_MAX_SEGMENTS of Linux before 6.9,
	// since when it is packet.MaxSegments.
	MaxBurstPackets = 64
)

// Egress is packets on their way out, as views of the caller's buffers. One
// goroutine at a time uses it; it is worth keeping, since all that sending needs
// is allocated with it. The zero Egress is empty and ready.
type Egress struct {
	bursts []burst
	flows  flowCache
	sys    sendScratch
}

// burst is consecutive packets to one destination, all of one size but the
// last, which may be shorter: what GSO sends at once.
type burst struct {
	to      Destination
	data    []byte
	size    int // bytes of each packet but the last
	packets int
}

// Add appends the packets for to that are back to back in data, each of size
// bytes but the last, which may be shorter. None is shorter than 16 bytes. data
// belongs to the Egress until it is sent: Send writes the ICRCs, the last four
// bytes of each packet.
func (e *Egress) Add(to Destination, data []byte, size int) {
	most := size * max(1, min(MaxBurst/size, MaxBurstPackets))
	for len(data) > 0 {
		b := burst{to: to, data: data[:min(len(data), most)], size: size}
		b.packets = (len(b.data) + size - 1) / size
		data = data[len(b.data):]
		e.bursts = append(e.bursts, b)
	}
}

// Packets returns how many packets there are to send.
func (e *Egress) Packets() int {
	n := 0
	for i := range e.bursts {
		n += e.bursts[i].packets
	}
	return n
}

// reset empties e.
func (e *Egress) reset() {
	clear(e.bursts)
	e.bursts = e.bursts[:0]
}

// packet returns packet i of b.
func (b *burst) packet(i int) []byte {
	return b.data[i*b.size : min(len(b.data), (i+1)*b.size)]
}

// seal seals all packets of b, as packets of GSO (segmented) or each sent alone,
// and shows them to tap if that is not nil.
func (e *Egress) seal(b *burst, local netip.AddrPort, segmented bool, tap Tap) error {
	remote := netip.AddrPortFrom(b.to.Addr, packet.Port)
	p, err := e.flows.peer(local, remote, local, remote)
	if err != nil {
		return err
	}
	for i := range b.packets {
		id := uint16(0)
		if segmented {
			id = uint16(i)
		}
		raw := b.packet(i)
		p.flow.Seal(raw, id)
		if tap != nil {
			tap(true, packet.Frame{Src: local, Dst: remote, ID: id, TOS: b.to.TOS, TTL: b.to.TTL}, raw)
		}
	}
	return nil
}
