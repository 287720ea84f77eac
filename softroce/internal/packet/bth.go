// The base transport header (BTH).

package packet

import "encoding/binary"

// DefaultPKey is the default partition key, with full membership. Build writes it.
const DefaultPKey = 0xffff

// BTH is a view over a base transport header, 12 bytes:
//
//	0     OpCode
//	1     SE 0x80, M (MigReq) 0x40, PadCnt 0x30, TVer 0x0f
//	2-3   P_Key
//	4     FECN 0x80, BECN 0x40, six reserved bits (not covered by the ICRC)
//	5-7   DestQP
//	8     A (AckReq) 0x80, seven reserved bits
//	9-11  PSN
type BTH [12]byte

// Opcode returns OpCode.
func (h *BTH) Opcode() Opcode { return Opcode(h[0]) }

// Solicited returns SE: the requester asks for a solicited event.
func (h *BTH) Solicited() bool { return h[1]&0x80 != 0 }

// MigReq returns M, the path migration state.
func (h *BTH) MigReq() bool { return h[1]&0x40 != 0 }

// Pad returns PadCnt: the number of bytes, 0 to 3, between payload and ICRC.
func (h *BTH) Pad() int { return int(h[1] >> 4 & 3) }

// TVer returns the transport header version, which is 0 in every valid packet.
func (h *BTH) TVer() uint8 { return h[1] & 0x0f }

// PKey returns P_Key.
func (h *BTH) PKey() uint16 { return binary.BigEndian.Uint16(h[2:]) }

// FECN returns the forward congestion notification bit.
func (h *BTH) FECN() bool { return h[4]&0x80 != 0 }

// BECN returns the backward congestion notification bit.
func (h *BTH) BECN() bool { return h[4]&0x40 != 0 }

// DestQPN returns DestQP, 24 bits.
func (h *BTH) DestQPN() uint32 { return binary.BigEndian.Uint32(h[4:]) & 0xffffff }

// AckReq returns A: the requester asks for an acknowledge.
func (h *BTH) AckReq() bool { return h[8]&0x80 != 0 }

// PSN returns the packet sequence number.
func (h *BTH) PSN() PSN { return NewPSN(binary.BigEndian.Uint32(h[8:])) }

// SetSolicited sets SE.
func (h *BTH) SetSolicited(v bool) { h[1] = withBit(h[1], 0x80, v) }

// SetMigReq sets M.
func (h *BTH) SetMigReq(v bool) { h[1] = withBit(h[1], 0x40, v) }

// SetPKey sets P_Key.
func (h *BTH) SetPKey(k uint16) { binary.BigEndian.PutUint16(h[2:], k) }

// SetFECN sets the forward congestion notification bit.
func (h *BTH) SetFECN(v bool) { h[4] = withBit(h[4], 0x80, v) }

// SetBECN sets the backward congestion notification bit.
func (h *BTH) SetBECN(v bool) { h[4] = withBit(h[4], 0x40, v) }

// SetDestQPN sets DestQP to the low 24 bits of qpn.
func (h *BTH) SetDestQPN(qpn uint32) { put24(h[5:8], qpn) }

// SetAckReq sets A.
func (h *BTH) SetAckReq(v bool) { h[8] = withBit(h[8], 0x80, v) }

// SetPSN sets the packet sequence number.
func (h *BTH) SetPSN(p PSN) { put24(h[9:12], uint32(p)) }

// setShape sets OpCode and PadCnt. Only Build calls it, because they must agree with the
// packet's layout.
func (h *BTH) setShape(o Opcode, pad int) {
	h[0] = byte(o)
	h[1] = h[1]&^0x30 | byte(pad)<<4
}

func withBit(b, bit byte, v bool) byte {
	if v {
		return b | bit
	}
	return b &^ bit
}

func get24(b []byte) uint32 {
	_ = b[2]
	return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
}

func put24(b []byte, v uint32) {
	_ = b[2]
	b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v)
}
