// Package dissect reads captured RoCEv2 packets: what each one is, and every header field of it.
// softroce.Capture gives such packets, and so does a capture of a network interface. It is for programs that
// show packets to a person.
package dissect

import (
	"encoding/binary"
	"net/netip"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Packet is a captured RoCEv2 packet.
type Packet struct {
	Src, Dst netip.Addr
	Opcode   string // the specification's name, such as "RC_SEND_ONLY"
	DestQPN  uint32 // the receiver's queue pair
	PSN      uint32
	Response bool   // a responder sent it: an acknowledgement, or the data of a READ
	Starts   bool   // it is the first packet of a message, or the only one
	Service  string // "RC", "UC", "UD" …
	Kind     string // the operation: "SEND", "RDMA_WRITE", "ACKNOWLEDGE" …
	Payload  int    // bytes
	Carries  string // the header that matters most in words: the AETH, the RETH …; "" if there is none
	Failed   bool   // it is a NAK
	Frame    []byte // the IP packet, as far as it was captured
	Headers  int    // bytes of Frame in front of the payload

	rest int // bytes after the headers on the wire: payload, pad and ICRC
}

// Field is a run of bits of a packet.
type Field = packet.Field

// moreOrOffset are the bits of IPv4's flags and fragment offset that only a fragment has.
const moreOrOffset = 0x3fff

// ErrOther is the error of a packet that is not of RoCEv2, such as one of TCP.
var ErrOther = errors.New("not a packet of RoCEv2")

// Parse reads an IP packet, from the IP header on. A capture may have cut its end off; then the
// length in the IP header counts. The error is ErrOther for a packet of another protocol; any other
// error is about a RoCEv2 packet that is malformed, or cut within its headers. The Packet shares the
// memory of ip.
func Parse(ip []byte) (Packet, error) {
	p := Packet{Frame: ip}
	var at, total int
	switch {
	case len(ip) >= packet.IPv4Len+packet.UDPLen && ip[0] == 0x45 && ip[9] == packet.ProtocolUDP && binary.BigEndian.Uint16(ip[6:])&moreOrOffset == 0:
		at, total = packet.IPv4Len, int(binary.BigEndian.Uint16(ip[2:]))
		p.Src, p.Dst = netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))
	case len(ip) >= packet.IPv6Len+packet.UDPLen && ip[0]>>4 == 6 && ip[6] == packet.ProtocolUDP:
		at, total = packet.IPv6Len, packet.IPv6Len+int(binary.BigEndian.Uint16(ip[4:]))
		p.Src, p.Dst = netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:]))
	default:
		return p, ErrOther
	}
	if binary.BigEndian.Uint16(ip[at+2:]) != packet.Port || total < at+packet.UDPLen {
		return p, ErrOther
	}
	at += packet.UDPLen
	datagram := ip[at:]
	if total < len(ip) { // Ethernet pads short frames
		datagram, p.Frame = ip[at:total], ip[:total]
	}
	// Parse of package packet needs the whole datagram. The bytes that a capture has cut off
	// are payload, and its headers are all that is read here.
	if missing := total - len(ip); missing > 0 {
		datagram = append(datagram[:len(datagram):len(datagram)], make([]byte, missing)...)
	}
	parsed, err := packet.Parse(datagram)
	if err != nil {
		return p, err
	}
	o := parsed.Opcode()
	p.Headers, p.rest = at+o.HeaderLen(), len(datagram)-o.HeaderLen()
	if len(p.Frame) < p.Headers {
		return p, packet.ErrTruncated
	}
	bth := parsed.BTH()
	p.Opcode, p.DestQPN, p.PSN = o.String(), bth.DestQPN(), uint32(bth.PSN())
	p.Response, p.Starts, p.Kind, p.Service = o.IsResponse(), o.StartsMessage(), o.Operation().String(), o.Transport().String()
	p.Payload, p.Carries = len(parsed.Payload()), parsed.Carries()
	p.Failed = parsed.AETH() != nil && parsed.AETH().Syndrome().Kind() != packet.KindACK
	return p, nil
}

// ICRC returns the ICRC that the packet carries and the one that its receiver computes; false if the capture has cut its
// end off.
func (p *Packet) ICRC() (carried, computed uint32, whole bool) {
	if len(p.Frame) < p.Headers+p.rest {
		return 0, 0, false
	}
	carried, computed = packet.FrameICRC(p.Frame)
	return carried, computed, true
}

// Fields returns the fields of the headers of IP, UDP and RoCEv2. They cover every bit of
// Frame[:Headers] once, in order.
func (p *Packet) Fields() []Field {
	frame := p.Frame
	if missing := p.Headers + p.rest - len(frame); missing > 0 { // a capture has cut it
		frame = append(frame[:len(frame):len(frame)], make([]byte, missing)...)
	}
	fields := packet.Fields(frame)
	for i, f := range fields {
		if f.Bit >= 8*p.Headers {
			return fields[:i]
		}
	}
	return fields
}
