// Control messages (cmsg): the metadata of a datagram.

package link

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// controlSpace is enough for all control messages of one datagram, sent or received: type
// of service, time to live and segment size.
const controlSpace = 128

// appendControl appends the control messages of a burst for to: type of service and time
// to live if they are set, and the segment size if GSO splits the burst.
func appendControl(b []byte, to Destination, segment int) []byte {
	level, tos, ttl := int32(unix.IPPROTO_IP), int32(unix.IP_TOS), int32(unix.IP_TTL)
	if to.Addr.Is6() {
		level, tos, ttl = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT
	}
	if to.TOS != 0 {
		b = appendInt(b, level, tos, uint32(to.TOS))
	}
	if to.TTL != 0 {
		b = appendInt(b, level, ttl, uint32(to.TTL))
	}
	if segment != 0 {
		h, data := appendHeader(&b, unix.SOL_UDP, unix.UDP_SEGMENT, 2)
		h.SetLen(unix.CmsgLen(2))
		binary.NativeEndian.PutUint16(data, uint16(segment))
	}
	return b
}

func appendInt(b []byte, level, kind int32, v uint32) []byte {
	_, data := appendHeader(&b, level, kind, 4)
	binary.NativeEndian.PutUint32(data, v)
	return b
}

// appendHeader appends a control message with n zero bytes of data.
func appendHeader(b *[]byte, level, kind int32, n int) (*unix.Cmsghdr, []byte) {
	start := len(*b)
	*b = (*b)[:start+unix.CmsgSpace(n)]
	clear((*b)[start:])
	h := (*unix.Cmsghdr)(unsafe.Pointer(&(*b)[start]))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(n))
	return h, (*b)[start+unix.CmsgLen(0):]
}

// parse sets the fields of d that the control messages describe.
func (d *datagram) parse(control []byte) {
	for len(control) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
		n := int(h.Len) - unix.CmsgLen(0)
		if n < 1 || int(h.Len) > len(control) {
			return
		}
		data := control[unix.CmsgLen(0):][:n]
		switch {
		case h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO:
			d.size = int(number(data))
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TTL,
			h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_HOPLIMIT:
			d.ttl = uint8(number(data))
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TOS,
			h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_TCLASS:
			d.tos = uint8(number(data))
		}
		control = control[min(len(control), unix.CmsgSpace(n)):]
	}
}

// number reads an int, or a single byte as in IP_TOS.
func number(data []byte) uint32 {
	if len(data) < 4 {
		return uint32(data[0])
	}
	return binary.NativeEndian.Uint32(data)
}
