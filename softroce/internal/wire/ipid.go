// This file is the check of a received ICRC by someone who cannot see the IPv4
// identification it covers: a UDP socket.

package wire

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
	// of 16 bits: one damaged packet in 65,536 gets by.
	Match16
	// MatchGSO: right for an identification below MaxSegments, as a sender that
	// uses GSO gives to its segments: a check of 25 bits.
	MatchGSO
	// MatchExact: right as it stands, all 32 bits: over IPv6, or over IPv4 with
	// identification 0.
	MatchExact

	// NumMatches is how many there are, for counters.
	NumMatches = int(MatchExact) + 1
)

// MaxSegments is the most segments that Linux makes of one GSO send
// (UDP_MAX_SEGMENTS).
const MaxSegments = 128

var matchNames = [NumMatches]string{"none", "16 bit", "GSO", "exact"}

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
//
// The identification is found rather than tried. CRC-32 is linear: the ICRC
// received and the one for identification 0 differ by what bytes 4 to 7 of the
// IP header (identification, flags, fragment offset) contribute, multiplied by
// x^8 for each byte after them. Divide that away and what is left is those four
// bytes, had the sender been right; so the flags and offset, which are known,
// must come out unchanged, and if they do the rest is the identification.
func (f Flow) Verify(packet []byte) (m Match, ipID uint16) {
	got := binary.LittleEndian.Uint32(packet[len(packet)-icrcLen:])
	d := got ^ f.ICRC(packet, 0)
	if d == 0 {
		return MatchExact, 0
	}
	if !f.ipv4 {
		return NoMatch, 0
	}
	// What follows byte 7 and is covered, and the four bytes themselves.
	n := ipv4Len - 8 + udpLen + len(packet) - icrcLen + 4
	s := removeZeros(d, n)
	if s>>16 != 0 {
		return NoMatch, 0
	}
	if ipID = bits.ReverseBytes16(uint16(s)); ipID < MaxSegments {
		return MatchGSO, ipID
	}
	return Match16, ipID
}
