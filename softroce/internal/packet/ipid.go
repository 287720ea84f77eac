// This file is the check of a received ICRC by someone who cannot see the IPv4
// identification it covers: a UDP socket.

package packet

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Match is how much a received ICRC proves.
type Match uint8

// From nothing to everything.
const (
	// NoMatch: the packet is damaged, or from somewhere else.
	NoMatch Match = iota
	// Match16: right for one of the 65,536 identifications, which leaves a check
	// of 16 bits: of damaged packets one in 65,536 gets by.
	Match16
	// MatchNear: right for an identification that is close to the one expected of a
	// sender who counts. Verify does not say so, since it knows no sender; the link
	// does, and takes one of 256 for close, which leaves a check of 24 bits.
	MatchNear
	// MatchGSO: right for an identification below MaxSegments, which a sender
	// with a socket gives to what it sends alone (0) and to the segments of a
	// GSO send: a check of 25 bits.
	MatchGSO
	// MatchExact: right as it stands, all 32 bits: over IPv6, or over IPv4 with
	// the identification that was expected.
	MatchExact

	// NumMatches is how many there are, for counters.
	NumMatches = int(MatchExact) + 1
)

// MaxSegments is the most segments that Linux makes of one GSO send
// (UDP_MAX_SEGMENTS).
const MaxSegments = 128

var matchNames = [NumMatches]string{"none", "16 bit", "near", "GSO", "exact"}

func (m Match) String() string {
	if int(m) < NumMatches {
		return matchNames[m]
	}
	return fmt.Sprintf("match %d", uint8(m))
}

// OK says whether the packet is to be taken.
func (m Match) OK() bool { return m != NoMatch }

// Verify checks the ICRC of packet, BTH to ICRC, and returns how much that
// proves and, over IPv4, the identification that the IP header must have had.
// packet is at least 16 bytes long, as any that Parse took.
//
// expect is the likely identification: the index of a segment in a datagram
// that GRO put together, 0 for one that came alone, the last one's successor
// for a peer that counts, as rxe does. If it is right the check is both exact
// and quicker; if it is wrong nothing is lost. It is ignored over IPv6.
//
// The identification is found rather than tried. CRC-32 is linear: the ICRC
// received and the one for expect differ by what bytes 4 to 7 of the two IP
// headers (identification, flags, fragment offset) differ by, multiplied by x^8
// for each byte after them. Divide that away, and what is left is those four
// bytes' difference, if the packet is sound. Flags and offset are known, so
// theirs must be zero; if it is, the rest gives the identification.
func (f Flow) Verify(packet []byte, expect uint16) (m Match, ipID uint16) {
	got := binary.LittleEndian.Uint32(packet[len(packet)-icrcLen:])
	d := got ^ f.ICRC(packet, expect)
	if !f.ipv4 {
		if d == 0 {
			return MatchExact, 0
		}
		return NoMatch, 0
	}
	if d == 0 {
		return MatchExact, expect
	}
	// A four-byte difference enters the register as it is, low byte first; then
	// come the four bytes themselves and what is covered after them.
	after := ipv4Len - 8 + udpLen + len(packet) - icrcLen
	s := removeZeros(d, 4+after)
	if s>>16 != 0 {
		return NoMatch, 0
	}
	ipID = expect ^ bits.ReverseBytes16(uint16(s))
	if ipID < MaxSegments {
		return MatchGSO, ipID
	}
	return Match16, ipID
}
