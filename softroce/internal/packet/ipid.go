// Verifying a received ICRC. It covers the IPv4 identification, which a UDP socket does not
// show.

package packet

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Match is how much a received ICRC proves.
type Match uint8

// The matches, from the weakest to the strongest.
const (
	// NoMatch: the packet is damaged, or it belongs to another flow.
	NoMatch Match = iota
	// Match16: the ICRC is right for one of the 65,536 identifications. This check has 16 bits:
	// one of 65,536 damaged packets passes.
	Match16
	// MatchNear: the ICRC is right for an identification near the expected one of a sender that
	// counts. Verify never returns it, because it does not know the sender. The link does: it
	// accepts 256 identifications as near, so this check has 24 bits.
	MatchNear
	// MatchGSO: the ICRC is right for an identification below MaxSegments. A sender with a
	// socket uses 0 for a datagram sent alone, and the index for a segment of a GSO send. This
	// check has 25 bits.
	MatchGSO
	// MatchExact: the ICRC is right for the expected identification, or over IPv6. This check
	// has all 32 bits.
	MatchExact

	// NumMatches is the number of matches, for arrays of counters.
	NumMatches = int(MatchExact) + 1
)

// MaxSegments is the largest number of segments in one GSO send of Linux (UDP_MAX_SEGMENTS).
const MaxSegments = 128

var matchNames = [NumMatches]string{"none", "16 bit", "near", "GSO", "exact"}

func (m Match) String() string {
	if int(m) < NumMatches {
		return matchNames[m]
	}
	return fmt.Sprintf("match %d", uint8(m))
}

// OK reports whether the packet should be accepted.
func (m Match) OK() bool { return m != NoMatch }

// Verify checks the ICRC of packet, BTH to ICRC. It returns how much the ICRC proves and, over
// IPv4, the identification that the IP header must have had. packet must be at least 16 bytes
// long, as every packet that Parse accepts.
//
// expect is the likely identification: the index of a segment in a datagram that GRO joined; 0
// for a datagram that arrived alone; one more than the last for a peer that counts, as rxe
// does. If expect is right, the check is exact and faster. If it is wrong, the result is still
// correct. Over IPv6 expect is ignored.
//
// Verify computes the identification instead of trying all of them. CRC-32 is linear. So the
// received ICRC and the one for expect differ by the difference of bytes 4 to 7 of the two IP
// headers (identification, flags, fragment offset), multiplied by x^8 for each byte after them.
// Dividing by that power of x gives the difference of the four bytes, if the packet is intact.
// The flags and the offset are known, so their difference must be zero. The rest gives the
// identification.
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
	// The difference enters the register unchanged, low byte first. After it come the four
	// bytes themselves and the rest of the covered bytes.
	after := IPv4Len - 8 + UDPLen + len(packet) - icrcLen
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
