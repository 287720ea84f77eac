// The extended transport headers. The AETH is in aeth.go.

package packet

import (
	"encoding/binary"

	"github.com/rawverbs/rawverbs/verbs"
)

// RETH is a view over an RDMA extended transport header, 16 bytes: VA 8, R_Key
// 4, DMALen 4.
type RETH [16]byte

// VA returns the virtual address at the responder.
func (h *RETH) VA() uint64 { return binary.BigEndian.Uint64(h[0:]) }

// RKey returns R_Key.
func (h *RETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// DMALen returns the number of bytes of the whole message, not of the packet.
func (h *RETH) DMALen() uint32 { return binary.BigEndian.Uint32(h[12:]) }

// Set sets all fields.
func (h *RETH) Set(va uint64, rkey, dmaLen uint32) {
	binary.BigEndian.PutUint64(h[0:], va)
	binary.BigEndian.PutUint32(h[8:], rkey)
	binary.BigEndian.PutUint32(h[12:], dmaLen)
}

// FETH is a view over a flush extended transport header, 4 bytes: 26 reserved bits, two bits of
// selectivity, four bits of placement type.
type FETH [4]byte

// Type returns the placement type.
func (h *FETH) Type() verbs.FlushType { return verbs.FlushType(h[3] & 0x0f) }

// Level returns the selectivity level.
func (h *FETH) Level() verbs.FlushLevel { return verbs.FlushLevel(h[3] >> 4 & 3) }

// Set sets both fields.
func (h *FETH) Set(t verbs.FlushType, l verbs.FlushLevel) {
	*h = FETH{3: byte(l&3)<<4 | byte(t&0x0f)}
}

// AtomicETH is a view over an atomic extended transport header, 28 bytes: VA 8,
// R_Key 4, SwapDt 8, CmpDt 8.
type AtomicETH [28]byte

// VA returns the virtual address at the responder.
func (h *AtomicETH) VA() uint64 { return binary.BigEndian.Uint64(h[0:]) }

// RKey returns R_Key.
func (h *AtomicETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// SwapAdd returns SwapDt: the value that COMPARE_SWAP stores or FETCH_ADD adds.
func (h *AtomicETH) SwapAdd() uint64 { return binary.BigEndian.Uint64(h[12:]) }

// Compare returns CmpDt: the value that COMPARE_SWAP compares with.
func (h *AtomicETH) Compare() uint64 { return binary.BigEndian.Uint64(h[20:]) }

// Set sets all fields. compare is 0 in a FETCH_ADD.
func (h *AtomicETH) Set(va uint64, rkey uint32, swapAdd, compare uint64) {
	binary.BigEndian.PutUint64(h[0:], va)
	binary.BigEndian.PutUint32(h[8:], rkey)
	binary.BigEndian.PutUint64(h[12:], swapAdd)
	binary.BigEndian.PutUint64(h[20:], compare)
}

// AtomicAckETH is a view over an atomic acknowledge extended transport header,
// 8 bytes.
type AtomicAckETH [8]byte

// Orig returns OrigRemDt: the value at the responder before the operation.
func (h *AtomicAckETH) Orig() uint64 { return binary.BigEndian.Uint64(h[0:]) }

// Set sets OrigRemDt.
func (h *AtomicAckETH) Set(orig uint64) { binary.BigEndian.PutUint64(h[0:], orig) }

// ImmDt is a view over immediate data, 4 bytes. Verbs keep these bytes in network byte order
// (imm_data is a __be32). Data and Set convert them from and to a number.
type ImmDt [4]byte

// Data returns the immediate data.
func (h *ImmDt) Data() uint32 { return binary.BigEndian.Uint32(h[0:]) }

// Set sets the immediate data.
func (h *ImmDt) Set(v uint32) { binary.BigEndian.PutUint32(h[0:], v) }

// IETH is a view over an invalidate extended transport header, 4 bytes.
type IETH [4]byte

// RKey returns the R_Key that the responder must invalidate.
func (h *IETH) RKey() uint32 { return binary.BigEndian.Uint32(h[0:]) }

// Set sets the R_Key.
func (h *IETH) Set(rkey uint32) { binary.BigEndian.PutUint32(h[0:], rkey) }

// DETH is a view over a datagram extended transport header, 8 bytes: Q_Key 4,
// a reserved byte, SrcQP 3.
type DETH [8]byte

// QKey returns Q_Key.
func (h *DETH) QKey() uint32 { return binary.BigEndian.Uint32(h[0:]) }

// SrcQPN returns SrcQP, 24 bits.
func (h *DETH) SrcQPN() uint32 { return get24(h[5:8]) }

// Set sets both fields. It uses the low 24 bits of srcQPN.
func (h *DETH) Set(qkey, srcQPN uint32) {
	binary.BigEndian.PutUint32(h[0:], qkey)
	put24(h[5:8], srcQPN)
}
