// The identifications (numbers) that senders give their IPv4 packets.
//
// The ICRC covers the identification, which the receiver does not see. An ICRC that
// matches with any of the 65,536 identifications proves only 16 bits. An ICRC that matches
// with an identification that the sender probably uses proves more. Senders number their
// packets in one of two ways:
//
//	by segment  A socket's packets have 0, or their index in a GSO burst.
//	by count    rdma_rxe counts all packets from one address to another, over all queue
//	            pairs. After a pause Linux adds a random number: at most one per tick
//	            that has passed.
//
// A packet with another number is probably damaged and is dropped. But the sender's count
// may also have jumped. Such a sender often jumps again, because it may count the packets
// to all addresses together. After a drop, the next packets may therefore have any number.

package link

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// A number is near the expected number if it is at most numbersBehind before it, or less
// than numbersAhead after it. These are 256 numbers. Most are ahead because packets get
// lost.
const (
	numbersBehind = 64
	numbersAhead  = 192

	// tick is the shortest timer tick of Linux.
	tick = time.Millisecond

	// doubtful is the number of packets that must have an expected number before
	// unexpected numbers are dropped again.
	doubtful = 16
)

// senderCache holds recent senders, indexed by a hash of the address.
type senderCache [64]sender

// sender is the state of one sending address.
type sender struct {
	addr   netip.Addr
	known  bool          // a packet has arrived from addr
	counts bool          // true: numbers by count; false: by segment
	next   uint16        // the number after that of the last packet
	doubt  uint8         // accepted packets until unexpected numbers are dropped again
	seen   time.Duration // when the last datagram arrived, if counts
}

// of returns the sender addr. The result is valid until the next call.
func (c *senderCache) of(addr netip.Addr) *sender {
	a := addr.As16()
	h := binary.LittleEndian.Uint64(a[:8]) ^ binary.LittleEndian.Uint64(a[8:])
	s := &c[h*0x9e3779b97f4a7c15>>58]
	if s.addr != addr {
		*s = sender{addr: addr}
	}
	return s
}

// expected returns the expected number of a datagram's first packet.
func (s *sender) expected() uint16 {
	if s.counts {
		return s.next
	}
	return 0
}

// judge returns how much the ICRC proves for a packet that matched as m with the number
// id. It returns NoMatch if the sender probably did not use id. at is the current time.
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

// near reports whether a sender that counts may have reached id at the time at.
func (s *sender) near(id uint16, at time.Duration) bool {
	return s.next-id <= numbersBehind || time.Duration(id-s.next) < numbersAhead+(at-s.seen)/tick
}
