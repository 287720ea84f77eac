// The wire: packets on their way, and what the caller can do with them.

package simulated

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
)

// Fate is what became of a packet.
type Fate string

// The fates.
const (
	InFlight  Fate = "in flight"
	Delivered Fate = "delivered"
	Dropped   Fate = "dropped" // by Drop
	Unrouted  Fate = "unrouted"
)

// Packet is a packet that a host has sent.
type Packet struct {
	ID      int // from 1 on
	From    Host
	Sent    time.Duration
	Arrives time.Duration // or has arrived
	Frame   []byte        // the IP packet as it travels
	Why     Reason
	CopyOf  int   // the packet that Duplicate copied; 0: none
	Flipped []int // the bits of Frame that Flip has inverted and not inverted back
	Marked  bool  // Mark has marked it
	Fate    Fate
	Outcome string // after delivery: what the receiver's device made of it; see Outcomes
	Check   string // after delivery: the check that it failed, in words; "": none, or the outcome says it
}

// HeaderBits is the length of the IP and UDP headers in front of the BTH.
const HeaderBits = 8 * (20 + 8)

// Data returns the packet from BTH to ICRC.
func (p *Packet) Data() []byte { return p.Frame[HeaderBits/8:] }

// Field is a run of bits of a frame.
type Field = packet.Field

// Fields returns the fields of the frame. The fields cover every bit once.
func (p *Packet) Fields() []Field { return packet.Fields(p.Frame) }

// Opcode returns the name of the packet's opcode.
func (p *Packet) Opcode() string { return packet.Opcode(p.Data()[0]).String() }

// PSN returns the packet's number.
func (p *Packet) PSN() uint32 { return uint32((*packet.BTH)(p.Data()).PSN()) }

// IsRequest reports whether the sender's requester sent it.
func (p *Packet) IsRequest() bool { return !packet.Opcode(p.Data()[0]).IsResponse() && !p.isNotice() }

// isNotice reports whether the packet is a CNP.
func (p *Packet) isNotice() bool { return packet.Opcode(p.Data()[0]) == packet.CongestionNotification }

// PayloadLen returns the number of bytes of payload, or 0 if the packet is malformed.
func (p *Packet) PayloadLen() int {
	parsed, err := packet.Parse(p.Data())
	if err != nil {
		return 0
	}
	return len(parsed.Payload())
}

// Carries describes the most important header, such as the AETH or the RETH. It returns "" if the packet has none of these headers.
func (p *Packet) Carries() string {
	parsed, err := packet.Parse(p.Data())
	if err != nil {
		return err.Error()
	}
	return parsed.Carries()
}

// Imm returns the packet's immediate data; false if it has none.
func (p *Packet) Imm() (uint32, bool) {
	parsed, err := packet.Parse(p.Data())
	if err != nil || parsed.ImmDt() == nil {
		return 0, false
	}
	return parsed.ImmDt().Data(), true
}

// Packets returns all packets that were ever sent; Packet i has ID i+1.
func (w *World) Packets() []*Packet { return w.packets }

// InFlight returns the packets on the wire in the order of their arrival.
func (w *World) InFlight() []*Packet { return slices.Clone(w.flying) }

// ICRC returns the ICRC that the packet carries and the one that its receiver computes over the bytes that arrive.
func (p *Packet) ICRC() (carried, computed uint32) { return packet.FrameICRC(p.Frame) }

// send puts the packet of a burst onto the wire. before is the sender as it was before.
func (w *World) send(q *qp, before transport.QPView, b *transport.Burst) {
	src, dst := endpoint(b.Path.Src), endpoint(b.Path.Dst)
	flow, err := packet.NewFlow(src, dst)
	if err != nil {
		panic("softroce/simulated: " + err.Error()) // resolve accepts IPv4 only
	}
	flow.Seal(b.Data, 0)
	frame, _ := packet.Frame{Src: src, Dst: dst, TOS: b.Path.TrafficClass, TTL: b.Path.HopLimit}.Append(nil, b.Data) // which has the error of NewFlow
	p := &Packet{From: q.d.host, Sent: w.now, Arrives: w.now + w.cfg.Delay, Frame: frame, Fate: InFlight}
	p.Why = w.reason(q, before, p)
	w.refuses(p)
	if b.Path.Dst != w.devices[q.d.host.Peer()].addr {
		p.Fate = Unrouted
	}
	w.put(p)
}

// put numbers a new packet.
func (w *World) put(p *Packet) {
	w.packets = append(w.packets, p)
	p.ID = len(w.packets)
	if p.Fate == InFlight {
		w.fly(p)
	}
}

// fly puts a packet among those on the wire, after those that arrive at the same time.
func (w *World) fly(p *Packet) {
	w.flying = append(w.flying, p)
	slices.SortStableFunc(w.flying, func(a, b *Packet) int { return cmp.Compare(a.Arrives, b.Arrives) })
}

// land takes a packet from the wire.
func (w *World) land(p *Packet, fate Fate) {
	p.Fate, w.flying = fate, without(w.flying, p)
}

// flight returns a packet on the wire.
func (w *World) flight(id int) (*Packet, error) {
	if id < 1 || id > len(w.packets) {
		return nil, errors.Errorf("packet %d does not exist; the packets are 1 to %d", id, len(w.packets))
	}
	p := w.packets[id-1]
	if p.Fate != InFlight {
		return nil, errors.Errorf("packet %d is not on the wire any more: it was %s", id, p.Fate)
	}
	return p, nil
}

// Drop loses a packet.
func (w *World) Drop(id int) error {
	p, err := w.flight(id)
	if err == nil {
		p.Arrives = w.now
		w.land(p, Dropped)
	}
	return err
}

// Duplicate sends a copy of a packet behind it.
func (w *World) Duplicate(id int) error {
	p, err := w.flight(id)
	if err != nil {
		return err
	}
	w.put(&Packet{From: p.From, Sent: w.now, Arrives: p.Arrives, Frame: slices.Clone(p.Frame), Why: p.Why, CopyOf: p.ID, Flipped: slices.Clone(p.Flipped), Marked: p.Marked, Fate: InFlight})
	return nil
}

// Delay lets a packet arrive later.
func (w *World) Delay(id int, by time.Duration) error {
	p, err := w.flight(id)
	switch {
	case err != nil:
		return err
	case by < 0 || by > maxDelay:
		return errors.Errorf("delay packet %d by %v: a delay is 0 to %v", id, by, maxDelay)
	}
	p.Arrives += by
	w.flying = without(w.flying, p)
	w.fly(p)
	return nil
}

const maxDelay = 1000 * time.Second

// Reorder lets a packet arrive after the packet that follows it from the same host.
func (w *World) Reorder(id int) error {
	p, err := w.flight(id)
	if err != nil {
		return err
	}
	at := slices.Index(w.flying, p)
	for i, next := range w.flying[at:] {
		if i > 0 && next.From == p.From {
			p.Arrives, next.Arrives = next.Arrives, p.Arrives
			w.flying[at], w.flying[at+i] = next, p
			return nil
		}
	}
	return errors.Errorf("reorder packet %d: no packet from the %v follows it", id, p.From)
}

// Flip inverts a bit of a packet's frame, counted as in Fields.
func (w *World) Flip(id, bit int) error {
	p, err := w.flight(id)
	switch {
	case err != nil:
		return err
	case bit < 0 || bit >= 8*len(p.Frame):
		return errors.Errorf("flip bit %d of packet %d: its frame has bits 0 to %d", bit, id, 8*len(p.Frame)-1)
	}
	p.Frame[bit/8] ^= 1 << (7 - bit%8)
	if slices.Contains(p.Flipped, bit) {
		p.Flipped = without(p.Flipped, bit)
	} else {
		p.Flipped = append(p.Flipped, bit)
		slices.Sort(p.Flipped)
	}
	return nil
}

// Mark sets a packet's ECN field to CE, as a congested switch does. It returns an error if the field is 0: a switch
// loses such a packet instead.
func (w *World) Mark(id int) error {
	const ecn = 3
	p, err := w.flight(id)
	switch {
	case err != nil:
		return err
	case p.Frame[1]&ecn == 0:
		return errors.Errorf("mark packet %d: its ECN field is 0, so a switch loses it instead", id)
	case !p.Marked:
		// The checksum counts in ones' complement, and no other byte has changed.
		sum := uint32(^binary.BigEndian.Uint16(p.Frame[10:])) + uint32(ecn-p.Frame[1]&ecn)
		binary.BigEndian.PutUint16(p.Frame[10:], ^uint16(sum+sum>>16))
		p.Frame[1] |= ecn
		p.Marked = true
	}
	return nil
}

// Deliver lets a packet arrive now, before the others.
func (w *World) Deliver(id int) error {
	p, err := w.flight(id)
	if err != nil {
		return err
	}
	w.arrive(p)
	w.transmit()
	return nil
}
