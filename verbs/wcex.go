// Extended completions, with more fields than struct ibv_wc.

package verbs

import "time"

// WCExFlags say which fields completions of an extended CQ have (enum ibv_create_cq_wc_flags). ID,
// Status, Opcode, VendorErr and Flags are always present.
type WCExFlags uint64

// The optional fields.
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
	WCExTMInfo    WCExFlags = 1 << 10  // tag matching; not supported: requesting it is EOPNOTSUPP
	WCExWallclock WCExFlags = 1 << 11  // WCEx.Wallclock
	WCExStandard  WCExFlags = 1<<7 - 1 // the fields of struct ibv_wc
)

// String lists the flags by their C names. No flags give "0".
func (f WCExFlags) String() string {
	return cFlags("IBV_WC_EX_WITH_", uint32(f), "BYTE_LEN", "IMM", "QP_NUM", "SRC_QP", "SLID", "SL", "DLID_PATH_BITS",
		"COMPLETION_TIMESTAMP", "CVLAN", "FLOW_TAG", "TM_INFO", "COMPLETION_TIMESTAMP_WALLCLOCK")
}

// CQFlags modify the creation of a CQ (enum ibv_create_cq_attr_flags). 0 means no flags.
type CQFlags uint32

// The creation flags.
const (
	CQSingleThreaded CQFlags = 1 << 0 // the device's library takes no lock; this package still runs polls one after the other
	CQIgnoreOverrun  CQFlags = 1 << 1 // an overrun overwrites completions without an event
)

// String lists the flags by their C names. No flags give "0".
func (f CQFlags) String() string {
	return cFlags("IBV_CREATE_CQ_ATTR_", uint32(f), "SINGLE_THREADED", "IGNORE_OVERRUN")
}

// WCEx is a completion of an extended CQ. [CQInit].Ex says which fields are set. WCEx is a plain
// value.
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
	WC                 // the fields of every completion
	Timestamp   uint64 // time of completion, in ticks of the device's clock (soft devices: nanoseconds since the device was opened)
	WallclockNS uint64 // time of completion, in nanoseconds since 1970; see Wallclock
	FlowTag     uint32 // tag of the flow rule that the packet matched
	CVLAN       uint16 // raw packets: the VLAN tag that was removed
}

// Wallclock returns the time of completion by the system's clock. It is valid with [WCExWallclock];
// without, it returns the start of 1970.
func (wc *WCEx) Wallclock() time.Time { return time.Unix(0, int64(wc.WallclockNS)) }
