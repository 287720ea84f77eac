// Egress: a batch of packets to send.

package link

import (
	"net/netip"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// The limits of one burst. Add splits more data into several bursts.
const (
	// MaxBurst is the maximum number of bytes: the longest UDP payload over IPv4.
	MaxBurst = 65535 - 20 - 8
	// MaxBurstPackets is the maximum number of packets: UDP_MAX_SEGMENTS before Linux
	// 6.9. Newer kernels allow packet.MaxSegments.
	MaxBurstPackets = 64
)

// Egress is a batch of packets to send. It refers to the caller's buffers. Reuse an
// Egress, because it keeps the memory that sending needs. It is for one goroutine at a
// time. The zero Egress is empty and ready to use.
type Egress struct {
	bursts []burst
	flows  flowCache
	sys    sendScratch
}

// burst is a run of consecutive packets to one destination, which GSO sends at once. All
// packets have one size; the last may be shorter.
type burst struct {
	to      Destination
	data    []byte
	size    int // bytes per packet; the last may have fewer
	packets int
}

// Add appends packets for the destination to. data has the packets back to back, size
// bytes each; the last may be shorter. Every packet has at least 16 bytes. The Egress
// owns data until Send returns. Send writes the ICRC into the last four bytes of each
// packet.
func (e *Egress) Add(to Destination, data []byte, size int) {
	most := size * max(1, min(MaxBurst/size, MaxBurstPackets))
	for len(data) > 0 {
		b := burst{to: to, data: data[:min(len(data), most)], size: size}
		b.packets = (len(b.data) + size - 1) / size
		data = data[len(b.data):]
		e.bursts = append(e.bursts, b)
	}
}

// Packets returns the number of packets to send.
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

// seal writes the ICRCs of all packets of b. segmented means that GSO will split the
// burst; otherwise each packet is sent alone. seal passes each packet to tap unless tap
// is nil.
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
