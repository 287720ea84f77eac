// The path back to the sender of a datagram, from the datagram's completion.

package verbs

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/rawverbs/rawverbs/internal/diagnosis/errno"
	"github.com/rawverbs/rawverbs/qpstate"
)

// GRHLen is the length in bytes of the global route header at the start of each UD receive. The
// header is valid if the completion has [WCGRH]. On RoCE v2 over IPv4 its last 20 bytes are the
// IPv4 header.
const GRHLen = 40

// AHAttrFromWC returns the path back to the sender of a datagram. wc is the datagram's completion,
// and grh is the first [GRHLen] bytes of the receive's memory. The GID index is that of the
// datagram's destination address, with the type that the header shows (RoCE v1 or v2). The hop
// limit is the remaining hop limit of the datagram. On InfiniBand a datagram may have no header;
// then grh is ignored.
//
// ENODATA if the port has no GID with the destination address. EINVAL if wc is not the completion
// of a datagram, if the destination is a multicast address, or if grh is too short.
// EPROTONOSUPPORT if grh is not such a header.
//
// Implements: int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
func (d *Device) AHAttrFromWC(port uint8, wc *WC, grh []byte) (AHAttr, error) {
	return query(&d.handle, "ibv_init_ah_from_wc", fmt.Sprintf("port %d", port), func() (AHAttr, error) { return d.ahFromWC(port, wc, grh) })
}

func (d *Device) ahFromWC(port uint8, wc *WC, grh []byte) (AHAttr, error) {
	attr := AHAttr{DLID: wc.SLID, SL: wc.SL, SrcPathBits: wc.DLIDPath, PortNum: port}
	if wc.Status != WCSuccess || wc.Opcode != WCRecv {
		return attr, syscall.EINVAL
	}
	if wc.Flags&WCGRH == 0 {
		return attr, nil // InfiniBand, within the subnet
	}
	h, err := readGRH(grh)
	if err != nil {
		return attr, err
	}
	table, err := d.p.QueryGIDTable()
	if err != nil {
		return attr, err
	}
	for _, e := range table {
		if e.Port == port && e.GID == h.to && (e.Type == GIDTypeRoCEv2) == h.udp && e.Index <= maxGIDIndex {
			attr.IsGlobal = true
			attr.GRH = h.back
			attr.GRH.SGIDIndex = uint8(e.Index)
			return attr, nil
		}
	}
	return attr, errno.NoData
}

// header holds the fields of the header in front of a datagram.
type header struct {
	to   GID  // destination
	udp  bool // RoCE v2; false for RoCE v1 and InfiniBand
	back GRH  // path back, without the GID index
}

// The protocols that may follow an IPv6 header.
const (
	nextUDP = 17
	nextIBA = 0x1b // the header is a GRH, with the layout of an IPv6 header; the BTH follows
)

func readGRH(grh []byte) (header, error) {
	switch {
	case len(grh) < GRHLen:
		return header{}, syscall.EINVAL
	case isIPv4(grh):
		return readIPv4(grh[20:])
	case grh[0]>>4 == 6:
		return readIPv6(grh)
	}
	return header{}, syscall.EPROTONOSUPPORT
}

// readIPv4 reads the last 20 bytes. The bytes before them are undefined: IPv4 has no flow label.
func readIPv4(ip []byte) (header, error) {
	if ip[16]>>4 == 0xe {
		return header{}, syscall.EINVAL // multicast: not one of the port's GIDs
	}
	h := header{udp: true, back: GRH{TrafficClass: ip[1], HopLimit: ip[8]}}
	h.back.DGID, h.to = qpstate.GID{10: 0xff, 11: 0xff}, qpstate.GID{10: 0xff, 11: 0xff}
	copy(h.back.DGID[12:], ip[12:16])
	copy(h.to[12:], ip[16:20])
	return h, nil
}

func readIPv6(ip []byte) (header, error) {
	next := ip[6]
	switch {
	case ip[24] == 0xff:
		return header{}, syscall.EINVAL // multicast
	case next != nextUDP && next != nextIBA:
		return header{}, syscall.EPROTONOSUPPORT
	}
	word := binary.BigEndian.Uint32(ip)
	h := header{udp: next == nextUDP, back: GRH{FlowLabel: word & 0xfffff, TrafficClass: uint8(word >> 20), HopLimit: ip[7]}}
	copy(h.back.DGID[:], ip[8:24])
	copy(h.to[:], ip[24:40])
	return h, nil
}

// isIPv4 reports whether a header is 20 undefined bytes and an IPv4 header. An IPv6 header begins
// with a 6, but undefined bytes may too. Then the checksum of the IPv4 header decides.
func isIPv4(grh []byte) bool {
	if grh[0]>>4 != 6 {
		return grh[20]>>4 == 4
	}
	const plain = 0x45 // version 4, and no options
	if grh[20] != plain {
		return false
	}
	sum := uint32(0)
	for i := 20; i < GRHLen; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(grh[i:]))
	}
	return uint16(sum>>16+sum) == 0xffff
}

// CreateAHFromWC makes an address handle for the path back to a datagram's sender. Arguments and
// errors are those of [Device.AHAttrFromWC] and [PD.CreateAH].
//
// Implements: struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
func (pd *PD) CreateAHFromWC(port uint8, wc *WC, grh []byte) (*AH, error) {
	attr, err := pd.dev.AHAttrFromWC(port, wc, grh)
	if err != nil {
		return nil, err
	}
	return pd.CreateAH(attr)
}
