// Extended completions: those with more fields than struct ibv_wc.

package verbs

import "time"

// WCExFlags are the fields that completions of an extended CQ have (enum
// ibv_create_cq_wc_flags). ID, Status, Opcode, VendorErr and Flags are always there.
type WCExFlags uint64

// The fields that can be asked for.
const (
	WCExByteLen   WCExFlags = 1 << 0   // WC.ByteLen
	WCExImm       WCExFlags = 1 << 1   // WC.Imm and WC.InvalidatedRKey
	WCExQPN       WCExFlags = 1 << 2   // WC.QPN
	WCExSrcQPN    WCExFlags = 1 << 3   // WC.SrcQPN
	WCExSLID      WCExFlags = 1 << 4   // WC.SLID
	WCExSL        WCExFlags = 1 << 5   // WC.SL
	WCExDLIDPath  WCExFlags = 1 << 6   // WC.DLIDPath
	WCExTimestamp WCExFlags = 1 << 7   // WCEx.Timestamp
	WCExCVLAN     WCExFlags = 1 << 8   // WCEx.CVLAN
	WCExFlowTag   WCExFlags = 1 << 9   // WCEx.FlowTag
	WCExTMInfo    WCExFlags = 1 << 10  // tag matching; not wrapped: asking for it is EOPNOTSUPP
	WCExWallclock WCExFlags = 1 << 11  // WCEx.Wallclock
	WCExStandard  WCExFlags = 1<<7 - 1 // what struct ibv_wc has
)

// String lists the flags by their C names, "0" for none.
func (f WCExFlags) String() string {
	return cFlags("IBV_WC_EX_WITH_", uint32(f), "BYTE_LEN", "IMM", "QP_NUM", "SRC_QP", "SLID", "SL", "DLID_PATH_BITS",
		"COMPLETION_TIMESTAMP", "CVLAN", "FLOW_TAG", "TM_INFO", "COMPLETION_TIMESTAMP_WALLCLOCK")
}

// CQFlags modify how a CQ is made (enum ibv_create_cq_attr_flags); 0 is none.
type CQFlags uint32

// The creation flags.
const (
	CQSingleThreaded CQFlags = 1 << 0 // the device's library takes no lock; polls are serialized here
	CQIgnoreOverrun  CQFlags = 1 << 1 // an overrun overwrites completions, without an event
)

// String lists the flags by their C names, "0" for none.
func (f CQFlags) String() string {
	return cFlags("IBV_CREATE_CQ_ATTR_", uint32(f), "SINGLE_THREADED", "IGNORE_OVERRUN")
}

// WCEx is a completion of an extended CQ. Which fields mean something follows from
// [CQInit].Ex; the others say nothing. It is a plain value, and refers to nothing.
//
// Implements: enum ibv_wc_opcode ibv_wc_read_opcode(struct ibv_cq_ex *cq), uint32_t ibv_wc_read_vendor_err(struct ibv_cq_ex *cq),
// uint32_t ibv_wc_read_byte_len(struct ibv_cq_ex *cq), __be32 ibv_wc_read_imm_data(struct ibv_cq_ex *cq),
// uint32_t ibv_wc_read_invalidated_rkey(struct ibv_cq_ex *cq), uint32_t ibv_wc_read_qp_num(struct ibv_cq_ex *cq),
// uint32_t ibv_wc_read_src_qp(struct ibv_cq_ex *cq), unsigned int ibv_wc_read_wc_flags(struct ibv_cq_ex *cq),
// uint32_t ibv_wc_read_slid(struct ibv_cq_ex *cq), uint8_t ibv_wc_read_sl(struct ibv_cq_ex *cq),
// uint8_t ibv_wc_read_dlid_path_bits(struct ibv_cq_ex *cq), uint64_t ibv_wc_read_completion_ts(struct ibv_cq_ex *cq),
// uint16_t ibv_wc_read_cvlan(struct ibv_cq_ex *cq), uint32_t ibv_wc_read_flow_tag(struct ibv_cq_ex *cq),
// uint64_t ibv_wc_read_completion_wallclock_ns(struct ibv_cq_ex *cq)
type WCEx struct {
	WC                 // what every completion has
	Timestamp   uint64 // when it completed, in ticks of the device's clock (soft devices: nanoseconds since it was opened)
	WallclockNS uint64 // when it completed, in nanoseconds since 1970: see Wallclock
	FlowTag     uint32 // of the flow rule that the packet met
	CVLAN       uint16 // raw packets: the VLAN tag that was taken off
}

// Wallclock is when it completed, by the system's clock; valid with [WCExWallclock],
// 1970 without.
func (wc *WCEx) Wallclock() time.Time { return time.Unix(0, int64(wc.WallclockNS)) }
