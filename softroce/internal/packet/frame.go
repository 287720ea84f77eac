// The IP and UDP headers around a packet. A socket does not show them, so Frame builds them
// again, for capture files and for the GRH of a UD receive.

package packet

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"net/netip"
)

// Lengths of headers in bytes. The IP headers have no options.
const (
	IPv4Len = 20
	IPv6Len = 40
	UDPLen  = 8
)

// ProtocolUDP is UDP's number in an IP header.
const ProtocolUDP = 17

const defaultTTL = 64

// Frame has the fields of the IP and UDP headers around a packet.
type Frame struct {
	Src, Dst netip.AddrPort
	ID       uint16 // identification, IPv4 only: as passed to Seal or returned by Verify
	TOS      uint8  // type of service or traffic class
	TTL      uint8  // time to live or hop limit; 0 means 64
}

// Append appends to b an IP packet that carries packet, BTH to ICRC. In a capture file its link
// type is LINKTYPE_RAW (101). It returns ErrFlow if NewFlow would.
func (f Frame) Append(b, packet []byte) ([]byte, error) {
	start := len(b)
	b, err := f.AppendIP(b, UDPLen+len(packet))
	if err != nil {
		return b, err
	}
	udp := len(b)
	b = binary.BigEndian.AppendUint16(b, f.Src.Port())
	b = binary.BigEndian.AppendUint16(b, f.Dst.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(UDPLen+len(packet)))
	b = append(b, 0, 0)
	b = append(b, packet...)

	// The checksum also covers a pseudo header: the addresses, which end the IP header in
	// both versions, the length and the protocol.
	addresses := 2 * 4
	if b[start]>>4 == 6 {
		addresses = 2 * 16
	}
	sum := onesSum(uint32(UDPLen+len(packet)+ProtocolUDP), b[udp-addresses:])
	if sum == 0xffff {
		sum = 0 // its complement 0 would mean "no checksum"
	}
	binary.BigEndian.PutUint16(b[udp+6:], ^sum)
	return b, nil
}

// AppendIP appends only the IP header to b, 20 or 40 bytes, for a packet with payload bytes
// after that header. A UD receive begins with such a header.
func (f Frame) AppendIP(b []byte, payload int) ([]byte, error) {
	src, dst := f.Src.Addr().Unmap(), f.Dst.Addr().Unmap()
	if !src.IsValid() || !dst.IsValid() || src.Is4() != dst.Is4() {
		return b, ErrFlow
	}
	ttl := f.TTL
	if ttl == 0 {
		ttl = defaultTTL
	}
	if src.Is4() {
		start := len(b)
		s, d := src.As4(), dst.As4()
		b = append(b, 0x45, f.TOS)
		b = binary.BigEndian.AppendUint16(b, uint16(IPv4Len+payload))
		b = binary.BigEndian.AppendUint16(b, f.ID)
		b = append(b, 0x40, 0, ttl, ProtocolUDP, 0, 0)
		b = append(b, s[:]...)
		b = append(b, d[:]...)
		binary.BigEndian.PutUint16(b[start+10:], ^onesSum(0, b[start:]))
		return b, nil
	}
	s, d := src.As16(), dst.As16()
	b = append(b, 0x60|f.TOS>>4, f.TOS<<4, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(payload))
	b = append(b, ProtocolUDP, ttl)
	b = append(b, s[:]...)
	return append(b, d[:]...), nil
}

// onesSum returns the ones' complement sum (RFC 1071) of start and of b as big-endian 16-bit
// words. It pads b with a zero byte if its length is odd.
func onesSum(start uint32, b []byte) uint16 {
	// The sum of 64-bit words has the same remainder as the sum of their 16-bit parts.
	sum, carry := uint64(start), uint64(0)
	for ; len(b) >= 8; b = b[8:] {
		sum, carry = bits.Add64(sum, binary.BigEndian.Uint64(b), carry)
	}
	sum = sum>>32 + sum&0xffffffff + carry
	for ; len(b) >= 2; b = b[2:] {
		sum += uint64(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// FrameICRC returns the ICRC at the end of an IP packet, and the one that its receiver computes, as the specification says
// it: eight bytes of ones for InfiniBand's LRH, then the packet, in which the fields that change on the way count as ones.
// Flow computes the same faster. ip is a whole packet that carries a packet that Parse accepts, perhaps damaged since.
func FrameICRC(ip []byte) (carried, computed uint32) {
	masked := []int{1, 8, 10, 11} // TOS, TTL, checksum
	udp := IPv4Len
	if ip[0]>>4 == 6 && len(ip) >= IPv6Len+UDPLen+bthLen+icrcLen { // a damaged IPv4 header may have a 6
		masked, udp = []int{0, 1, 2, 3, 7}, IPv6Len // traffic class, flow label, hop limit
	}
	masked = append(masked, udp+6, udp+7, udp+UDPLen+4) // checksum; the BTH's byte of FECN and BECN
	end := len(ip) - icrcLen
	covered := append(bytes.Repeat([]byte{0xff}, 8), ip[:end]...)
	for _, i := range masked {
		covered[8+i] = 0xff
	}
	if udp == IPv6Len {
		covered[8] = ip[0] | 0x0f // the version does not change
	}
	return binary.LittleEndian.Uint32(ip[end:]), crc32.ChecksumIEEE(covered)
}
