// This file knows how senders number their IPv4 packets. An ICRC that is right for any of
// the 65,536 identifications proves 16 bits; one that is right for an identification that
// the sender is likely to use proves more.
//
//	by segment  a socket's packets have 0, or their index in a burst of GSO
//	by count    rdma_rxe counts all packets from one address to another, whatever their
//	            queue pairs; Linux adds a random number after a pause, at most one for
//	            each tick that passed
//
// A packet with another number is damaged, most likely, and is dropped. But the sender's
// count may have jumped, and then often jumps again: a sender may count its packets to all
// addresses together. So the next packets may have any number.

package link

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// A number is near the expected one if it is no more than numbersBehind before it, or
// less than numbersAhead after it: one of 256. Most of them are ahead, because packets get lost.
const (
	numbersBehind = 64
	numbersAhead  = 192

	// tick is the shortest that Linux has.
	tick = time.Millisecond

	// doubtful is how many packets must have a number as expected before other numbers
	// are dropped again.
	doubtful = 16
)

// senderCache holds what is known of those who sent last, by their addresses.
type senderCache [64]sender

// sender is what an address's packets have shown of how it numbers them.
type sender struct {
	addr   netip.Addr
	known  bool   // it has sent something
	counts bool   // else it numbers by segment
	next   uint16 // the number after the last packet's
	doubt  uint8
	seen   time.Duration // when its last datagram came, if it counts
}

// of returns what is known of addr. It is valid until the next call.
func (c *senderCache) of(addr netip.Addr) *sender {
	a := addr.As16()
	h := binary.LittleEndian.Uint64(a[:8]) ^ binary.LittleEndian.Uint64(a[8:])
	s := &c[h*0x9e3779b97f4a7c15>>58]
	if s.addr != addr {
		*s = sender{addr: addr}
	}
	return s
}

// expected is the likely number of a datagram's first packet.
func (s *sender) expected() uint16 {
	if s.counts {
		return s.next
	}
	return 0
}

// judge says how much the ICRC proves, of a packet that matched as m with a number:
// NoMatch for a number that is not to be expected. at is now.
func (s *sender) judge(m packet.Match, id uint16, at time.Duration) packet.Match {
	switch {
	case !s.known:
		s.known, s.counts = true, id >= packet.MaxSegments
	case m == packet.MatchExact, s.counts && s.near(id, at), !s.counts && (id < packet.MaxSegments || id == s.next):
		if m != packet.MatchExact && (s.counts || id >= packet.MaxSegments) {
			m = packet.MatchNear
		}
		s.counts = s.counts || id >= packet.MaxSegments
		s.doubt -= min(s.doubt, 1)
	case s.doubt == 0:
		s.doubt = doubtful
		return packet.NoMatch
	default:
		s.counts = id >= packet.MaxSegments
		s.doubt = doubtful
	}
	s.next = id + 1
	return m
}

// near says whether a sender that counts may have come to a number by now.
func (s *sender) near(id uint16, at time.Duration) bool {
	return s.next-id <= numbersBehind || time.Duration(id-s.next) < numbersAhead+(at-s.seen)/tick
}
