// The invariant CRC (ICRC), the last four bytes of a packet.

package packet

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"

	"github.com/pkg/errors"
)

// The ICRC (annex A17) is the IEEE CRC-32, stored little-endian, over
//
//   - eight bytes of ones, in place of the LRH of an InfiniBand packet
//   - the IP header, with the fields that routers change set to ones: TOS, TTL and header
//     checksum of IPv4; traffic class, flow label and hop limit of IPv6
//   - the UDP header, with its checksum set to ones
//   - the BTH, with byte 4 (FECN, BECN, reserved) set to ones
//   - the rest of the packet up to the ICRC
//
// So over IPv4 it covers the identification and the don't fragment bit. A UDP socket cannot
// choose the identification freely and does not show it; see ipid.go.

// Port is the UDP port of RoCEv2.
const Port = 4791

// ErrFlow is the error for a flow whose addresses are not of one family.
var ErrFlow = errors.New("softroce/packet: the source and destination addresses must be of the same family")

// Flow is the part of the ICRC that depends on addresses and ports. All packets in one
// direction between two sockets share it. A Flow is a small value that never changes, so it may
// be copied and shared. The zero Flow is not valid.
type Flow struct {
	// register is the CRC register after the IP and UDP headers, with length 0 in both and
	// identification 0.
	register uint32
	lengths  *lengthFields
	ipv4     bool
}

// lengthFields has the contributions of the length fields of the IP and UDP headers, as seen at
// the end of the UDP header.
type lengthFields struct {
	ip, udp field16
	ipExtra int // bytes that the IP header's length field counts in addition to the UDP datagram
}

var (
	ipv4Lengths = lengthFields{ip: field16At(IPv4Len + UDPLen - 4), udp: field16At(2), ipExtra: IPv4Len}
	ipv6Lengths = lengthFields{ip: field16At(IPv6Len + UDPLen - 6), udp: field16At(2)}

	// ipv4ID is the contribution of the identification, as seen there.
	ipv4ID = field16At(IPv4Len + UDPLen - 6)
)

// NewFlow returns the flow of packets from src to dst. It treats an IPv4-mapped IPv6 address as
// IPv4, as in a GID, and ignores an IPv6 zone. It assumes that IPv4 headers are 20 bytes long
// and have DF set, as those of rxe and of all adapters.
func NewFlow(src, dst netip.AddrPort) (Flow, error) {
	s, d := src.Addr().Unmap(), dst.Addr().Unmap()
	if !s.IsValid() || !d.IsValid() || s.Is4() != d.Is4() {
		return Flow{}, ErrFlow
	}
	var buf [IPv6Len + UDPLen]byte
	header := buf[:0]
	f := Flow{ipv4: s.Is4()}
	if f.ipv4 {
		f.lengths = &ipv4Lengths
		s, d := s.As4(), d.As4()
		header = append(header, 0x45, 0xff, 0, 0, 0, 0, 0x40, 0, 0xff, ProtocolUDP, 0xff, 0xff)
		header = append(header, s[:]...)
		header = append(header, d[:]...)
	} else {
		f.lengths = &ipv6Lengths
		s, d := s.As16(), d.As16()
		header = append(header, 0x6f, 0xff, 0xff, 0xff, 0, 0, ProtocolUDP, 0xff)
		header = append(header, s[:]...)
		header = append(header, d[:]...)
	}
	header = binary.BigEndian.AppendUint16(header, src.Port())
	header = binary.BigEndian.AppendUint16(header, dst.Port())
	header = append(header, 0, 0, 0xff, 0xff)

	// A loop, because crc32.Update would make its argument escape to the heap.
	r := ^uint32(0x2144df1c) // after the eight bytes of ones
	for _, b := range header {
		r = appendZero(r ^ uint32(b))
	}
	f.register = r
	return f, nil
}

// ICRC returns the ICRC of packet, BTH to ICRC, and ignores the ICRC in it. ipID is the
// identification of the IPv4 header; over IPv6 it is ignored. packet must be at least 16 bytes
// long, as every packet that Parse accepts.
func (f Flow) ICRC(packet []byte, ipID uint16) uint32 {
	udp := UDPLen + len(packet)
	r := f.register ^ f.lengths.udp.of(uint16(udp)) ^ f.lengths.ip.of(uint16(udp+f.lengths.ipExtra))
	if f.ipv4 {
		r ^= ipv4ID.of(ipID)
	}
	r = appendBTH(r, (*BTH)(packet))
	return crc32.Update(^r, crc32.IEEETable, packet[bthLen:len(packet)-icrcLen])
}

// Seal writes the ICRC of packet, BTH to ICRC, into its last four bytes. ipID is the
// identification that the IPv4 header will have; over IPv6 it is ignored. It is i for segment i
// of a GSO send. It is 0 for a datagram sent alone, if the socket is not connected and never
// fragments.
func (f Flow) Seal(packet []byte, ipID uint16) {
	binary.LittleEndian.PutUint32(packet[len(packet)-icrcLen:], f.ICRC(packet, ipID))
}

// bthContributions has the contributions of the BTH's bytes, as seen at its end. Each byte has
// its own table, so that the twelve look-ups are independent, and byte 4 can be masked without
// a copy.
var bthContributions = func() (t [bthLen]contribution) {
	for i := range t {
		t[i] = contributionAt(bthLen - 1 - i)
	}
	return t
}()

// appendBTH returns the register r after a BTH whose byte 4 is masked.
func appendBTH(r uint32, h *BTH) uint32 {
	t := &bthContributions
	return t[0][h[0]^byte(r)] ^ t[1][h[1]^byte(r>>8)] ^ t[2][h[2]^byte(r>>16)] ^ t[3][h[3]^byte(r>>24)] ^
		t[4][0xff] ^ t[5][h[5]] ^ t[6][h[6]] ^ t[7][h[7]] ^
		t[8][h[8]] ^ t[9][h[9]] ^ t[10][h[10]] ^ t[11][h[11]]
}
