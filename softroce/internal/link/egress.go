// Egress: a batch of packets to send.

package link

import (
	"iter"
	"net/netip"
	"slices"

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
	kept   []byte // the data of bursts that MoveTo moved here
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
	done    int // packets that were sent or refused
	sealed  sealing
}

// sealing is whether, and for which way of sending, a burst has its ICRCs.
type sealing uint8

const (
	unsealed sealing = iota
	sealedAlone
	sealedSplit
)

// Add appends packets for the destination to. data has the packets back to back, size
// bytes each; the last may be shorter. Every packet has at least 16 bytes. The Egress
// owns data until Send has sent it, or MoveTo has moved it. Send writes the ICRC into the last
// four bytes of each packet.
func (e *Egress) Add(to Destination, data []byte, size int) {
	for len(data) > 0 {
		b := burst{to: to, data: data, size: size, packets: (len(data) + size - 1) / size}
		if b.packets > 1 && (len(data) > MaxBurst || b.packets > MaxBurstPackets) {
			b.packets = max(1, min(MaxBurst/size, MaxBurstPackets))
			b.data = data[:b.packets*size]
		}
		data = data[len(b.data):]
		e.bursts = append(e.bursts, b)
	}
}

// Packets returns the number of packets to send.
func (e *Egress) Packets() int {
	n := 0
	for i := range e.bursts {
		n += e.bursts[i].left()
	}
	return n
}

// Has reports whether packets of data, which was passed to Add and fits into one burst, are left to send.
func (e *Egress) Has(data []byte) bool {
	return slices.ContainsFunc(e.bursts, func(b burst) bool { return &b.data[0] == &data[0] })
}

// Source returns the source port of the first packet to send. There must be one.
func (e *Egress) Source() uint16 { return e.bursts[0].to.Source }

// MoveTo moves the packets that leave from a source port, and a copy of their data, to the end of another Egress.
func (e *Egress) MoveTo(to *Egress, source uint16) {
	for i := range e.bursts {
		b := &e.bursts[i]
		if b.to.Source != source {
			continue
		}
		moved, from := *b, len(to.kept)
		to.kept = append(to.kept, b.data[b.done*b.size:]...)
		moved.data = to.kept[from:len(to.kept):len(to.kept)]
		moved.packets, moved.done = b.left(), 0
		to.bursts = append(to.bursts, moved)
		b.done = b.packets
	}
	e.forget()
}

// forget removes the bursts that are done.
func (e *Egress) forget() {
	e.bursts = slices.DeleteFunc(e.bursts, func(b burst) bool { return b.left() == 0 })
	if len(e.bursts) == 0 {
		e.kept = e.kept[:0]
	}
}

// Sealed returns the packets of e, which have been in no Send yet, with the ICRCs of packets that are sent alone. It empties
// e. It is for links that are not Sockets.
func (e *Egress) Sealed(local netip.Addr, tap Tap) iter.Seq2[Destination, []byte] {
	return func(yield func(Destination, []byte) bool) {
		defer e.reset()
		for i := range e.bursts {
			b := &e.bursts[i]
			if e.seal(b, netip.AddrPortFrom(local, packet.Port), sealedAlone, tap) != nil {
				continue // the destination is of another family
			}
			for i := range b.packets {
				if !yield(b.to, b.packet(i)) {
					return
				}
			}
		}
	}
}

// reset empties e.
func (e *Egress) reset() {
	clear(e.bursts)
	e.bursts, e.kept = e.bursts[:0], e.kept[:0]
}

func (b *burst) left() int { return b.packets - b.done }

// packet returns packet i of b.
func (b *burst) packet(i int) []byte {
	return b.data[i*b.size : min(len(b.data), (i+1)*b.size)]
}

// seal writes the ICRCs of all packets of b, unless it has them. how says whether GSO will split
// the burst, or each packet is sent alone. seal passes each packet to tap unless tap is nil.
func (e *Egress) seal(b *burst, local netip.AddrPort, how sealing, tap Tap) error {
	if b.sealed == how {
		return nil
	}
	remote := netip.AddrPortFrom(b.to.Addr, packet.Port)
	p, err := e.flows.peer(local, remote, local, remote)
	if err != nil {
		return err
	}
	for i := b.done; i < b.packets; i++ {
		id := uint16(0)
		if how == sealedSplit {
			id = uint16(i)
		}
		raw := b.packet(i)
		p.flow.Seal(raw, id)
		if tap != nil {
			tap(true, packet.Frame{Src: local, Dst: remote, ID: id, TOS: b.to.TOS, TTL: b.to.TTL}, raw)
		}
	}
	b.sealed = how
	return nil
}
