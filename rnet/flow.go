// The accounts of a Conn's two directions: what may be sent, what has arrived, and what the peer
// must be told. They are pure: Conn does the I/O. All positions count bytes from the beginning of
// the Conn and never wrap; a position modulo the ring's size is a place in the ring.

package rnet

import "github.com/pkg/errors"

// flow has both accounts. Conn.turn guards it.
type flow struct {
	terms
	packet uint64 // bytes of a packet, if messages are to fit into datagrams; else 0
	run    uint64 // packets of that length in a datagram

	// To the peer: freed ≤ posted ≤ written ≤ freed + ring.
	written  uint64 // put into the staging ring
	posted   uint64 // given to the device
	freed    uint64 // reported by the peer as consumed
	unposted int    // data messages whose receives the peer has not reported as posted again

	// From the peer: told ≤ consumed ≤ arrived ≤ told + ring.
	arrived  uint64
	consumed uint64 // by the program
	told     uint64 // of that, reported to the peer
	untold   int    // data messages received since the last report
	fin      bool   // the peer sends no more
}

func (f *flow) unit() uint64       { return f.ring / unitsPerRing }
func (f *flow) maxMessage() uint64 { return min(maxMessage, f.ring/8) }

// space returns the next place for the program's bytes in the staging ring: at most a message, and
// contiguous.
func (f *flow) space() (at, n uint64) {
	at = f.written % f.ring
	return at, min(f.ring-(f.written-f.freed), f.ring-at, f.maxMessage())
}

// data returns the next place in the receive ring with bytes for the program, contiguous.
func (f *flow) data() (at, n uint64) {
	at = f.consumed % f.ring
	return at, min(f.arrived-f.consumed, f.ring-at)
}

// next takes the next message to post; its length is 0 if there is none. While several messages
// are on their way (busy), it waits until there is a whole one: many small writes then leave in
// one message. last says that the program writes no more.
//
// The peer posts receives again while its program reads. So that this end can always send the last
// bytes of the program, the receives that they need are kept for whole messages and for last.
func (f *flow) next(busy, last bool) (at uint64, m arrival) {
	left, whole := f.written-f.posted, f.whole()
	receives := f.receives - reserved - f.unposted
	short := receives <= f.lastMessages()
	if receives <= 0 || left < whole && (busy || short && !last) {
		return 0, m
	}
	at = f.posted % f.ring
	m.length = min(left, f.ring-at, whole)
	if left > 0 && left <= runPackets*f.packet && receives > f.lastMessages()+runPackets {
		packets := (left + f.packet - 1) / f.packet
		m.length = min(m.length, (left+packets-1)/packets) // all messages of the run have nearly the same length
	}
	if m.length > 0 {
		f.posted += m.length
		f.unposted++
		m.units = f.takeUnits()
	}
	return at, m
}

// lastMessages is how many messages a whole ring takes at most: a message ends at the ring's end, and
// the last one may be short. Of a peer with few receives it is less, because the peer reports receives
// only after tellMessages.
func (f *flow) lastMessages() int {
	return min(int(f.ring/f.whole())+2, (f.receives-reserved)/4)
}

// A device in software sends a run of packets in one datagram of the host if all have one length, but the last may be
// shorter. A datagram costs more than a message. So two kinds of messages suit it:
//
//   - messages of one packet each, of nearly the same length: as many as fit share a datagram
//   - a whole message: its first packet is 16 bytes longer than the others, so it shares a datagram with the
//     second. The others fill datagrams if the last, which has 4 bytes of immediate data, has 4 bytes less
//     of the program's.

// runPackets is how many messages of one packet share a datagram.
const runPackets = 14

// whole returns the length of a whole message.
func (f *flow) whole() uint64 {
	most := f.maxMessage()
	if f.packet == 0 {
		return most
	}
	runs := (most/f.packet - 2) / f.run
	if runs == 0 {
		return most
	}
	return (2+runs*f.run)*f.packet - 4
}

// few is the number of requests on their way from which on small writes are collected.
const few = 4

// takeUnits returns the units to report, and counts them as reported.
func (f *flow) takeUnits() uint64 {
	n := min((f.consumed-f.told)/f.unit(), maxUnits)
	f.told += n * f.unit()
	return n
}

// due reports whether the peer must be told now in a control message: it may be about to wait for
// space or for receives, and no data goes its way.
func (f *flow) due() bool {
	space := f.arrived-f.told > f.ring/2 && f.consumed-f.told >= f.ring/8
	return !f.fin && (space || f.untold >= tellMessages)
}

// report returns a control message with everything that the peer can be told.
func (f *flow) report() arrival {
	m := arrival{control: true, messages: min(f.untold, maxMessages), units: f.takeUnits()}
	f.untold -= m.messages
	return m
}

// arrive enters a message into the accounts. bytes is the length that the device has written. The
// error says what the peer did wrong.
func (f *flow) arrive(m arrival, bytes uint64) error {
	switch room := f.ring - (f.arrived - f.consumed); {
	case m.units*f.unit() > f.posted-f.freed:
		return errors.Errorf("the peer freed %d bytes, but only %d are on their way", m.units*f.unit(), f.posted-f.freed)
	case m.messages > f.unposted:
		return errors.Errorf("the peer posted %d receives again, but took only %d messages", m.messages, f.unposted)
	case m.length != bytes:
		return errors.Errorf("the peer wrote %d bytes, but its immediate says %d", bytes, m.length)
	case !m.control && m.length == 0:
		return errors.New("the peer sent data without bytes")
	case m.control && m.units == 0 && m.messages == 0 && !m.rst && (!m.fin || f.fin): // it could send these without end
		return errors.New("the peer sent a control message with nothing new")
	case m.length > 0 && f.fin:
		return errors.Errorf("the peer sent %d bytes after its FIN", m.length)
	case m.length > min(room, f.ring-f.arrived%f.ring, f.maxMessage()):
		return errors.Errorf("the peer sent %d bytes, but the ring has room for %d", m.length, min(room, f.ring-f.arrived%f.ring, f.maxMessage()))
	}
	f.freed += m.units * f.unit()
	f.unposted -= m.messages
	if m.control {
		f.fin = f.fin || m.fin
		return nil
	}
	f.arrived += m.length
	f.untold++
	return nil
}
