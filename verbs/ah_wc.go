// The way back to whoever sent a datagram, from its completion.

package verbs

import (
	"encoding/binary"
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
)

// GRHLen is what a UD receive begins with, in bytes: the global route header, valid
// if the completion has [WCGRH]. On RoCE v2 over IPv4 its last 20 bytes are the IPv4
// header.
const GRHLen = 40

// AHAttrFromWC is the way back to the sender of a datagram: wc is its completion,
// grh the first [GRHLen] bytes that it filled. ENODATA if none of the port's GIDs is
// the one that the datagram was sent to, EINVAL for a completion that is no
// datagram's, or bytes that are no header. On InfiniBand a datagram may have none: then
// grh is not looked at.
//
// Implements: int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
func (d *Device) AHAttrFromWC(port uint8, wc *WC, grh []byte) (AHAttr, error) {
	return query(d, "ibv_init_ah_from_wc", "", func() (AHAttr, error) { return d.ahFromWC(port, wc, grh) })
}

func (d *Device) ahFromWC(port uint8, wc *WC, grh []byte) (AHAttr, error) {
	attr := AHAttr{DLID: wc.SLID, SL: wc.SL, SrcPathBits: wc.DLIDPath, PortNum: port}
	if wc.Status != WCSuccess || wc.Opcode != WCRecv {
		return attr, syscall.EINVAL
	}
	if wc.Flags&WCGRH == 0 {
		return attr, nil // InfiniBand, within the subnet
	}
	from, to, ok := grhAddresses(grh)
	if !ok {
		return attr, syscall.EINVAL
	}
	table, err := d.p.QueryGIDTable()
	if err != nil {
		return attr, err
	}
	for _, e := range table {
		if e.Port != port || e.GID != to || e.Type == GIDTypeRoCEv1 && isIPv4(grh) || e.Index > maxGIDIndex {
			continue
		}
		attr.IsGlobal = true
		attr.GRH = GRH{DGID: from, SGIDIndex: uint8(e.Index), HopLimit: 0xff}
		if !isIPv4(grh) {
			word := binary.BigEndian.Uint32(grh)
			attr.GRH.TrafficClass, attr.GRH.FlowLabel = uint8(word>>20), word&0xfffff
		} else {
			attr.GRH.TrafficClass = grh[21]
		}
		return attr, nil
	}
	return attr, syscall.ENODATA
}

// isIPv4 says whether a header is 20 bytes of anything and an IPv4 header. What
// begins with a 6 may be that too: then the IPv4 header's checksum decides.
func isIPv4(grh []byte) bool {
	const plain = 0x45 // version 4, and no options
	if grh[20] != plain {
		return false
	}
	sum := uint32(0)
	for i := 20; i < GRHLen; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(grh[i:]))
	}
	return uint16(sum>>16+sum) == 0xffff || grh[0]>>4 != 6
}

// grhAddresses finds the two ends in a header.
func grhAddresses(grh []byte) (from, to GID, ok bool) {
	if len(grh) < GRHLen {
		return from, to, false
	}
	if isIPv4(grh) {
		from, to = qpstate.GID{10: 0xff, 11: 0xff}, qpstate.GID{10: 0xff, 11: 0xff}
		copy(from[12:], grh[32:36])
		copy(to[12:], grh[36:40])
		return from, to, true
	}
	copy(from[:], grh[8:24])
	copy(to[:], grh[24:40])
	return from, to, grh[0]>>4 == 6
}

// CreateAHFromWC makes the handle of the way back to a datagram's sender: arguments and
// errors are those of [Device.AHAttrFromWC], and then of [PD.CreateAH].
//
// Implements: struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
func (pd *PD) CreateAHFromWC(port uint8, wc *WC, grh []byte) (*AH, error) {
	attr, err := pd.dev.AHAttrFromWC(port, wc, grh)
	if err != nil {
		return nil, err
	}
	return pd.CreateAH(attr)
}
