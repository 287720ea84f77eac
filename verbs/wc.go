// Work completions: what became of a work request.

package verbs

import "fmt"

// WCStatus is how a work request ended (enum ibv_wc_status). A failure moves a queue
// pair of RC to ERR; a failed send moves one of UC or UD to SQE (rdma_rxe: to ERR).
// docs/errors.md says what to do about each.
type WCStatus uint32

// The completion statuses.
const (
	WCSuccess        WCStatus = iota // done: the other fields are valid
	WCLocLenErr                      // a local buffer is too small for the message, or the message is longer than the port takes
	WCLocQPOpErr                     // the request does not fit the queue pair, as its opcode or a limit of it
	WCLocEECOpErr                    // of reliable datagrams, which no device has
	WCLocProtErr                     // a local SGE is not memory of its region, or lacks a right
	WCWRFlushErr                     // not done: the queue pair has left RTS for ERR, or a send of it for SQE
	WCMWBindErr                      // a window could not be bound
	WCBadRespErr                     // the peer's answer makes no sense
	WCLocAccessErr                   // of a receive: the peer's WRITE with immediate had no right to the memory
	WCRemInvReqErr                   // the peer found the request wrong: its opcode, its length or the queue pair's rights
	WCRemAccessErr                   // the peer's memory is not to be had: key, bounds, rights or domain
	WCRemOpErr                       // the peer could not complete the request, for a reason of its own
	WCRetryExcErr                    // no ACK came, and RETRY_CNT resends did not help
	WCRNRRetryExcErr                 // the peer had no receive posted, and RNR_RETRY resends did not help
	WCLocRDDViolErr                  // of reliable datagrams, which no device has
	WCRemInvRDReqErr                 // of reliable datagrams, which no device has
	WCRemAbortErr                    // the peer aborted the operation
	WCInvEECNErr                     // of reliable datagrams, which no device has
	WCInvEECStateErr                 // of reliable datagrams, which no device has
	WCFatalErr                       // the device failed
	WCRespTimeoutErr                 // the peer did not answer in time
	WCGeneralErr                     // anything else
)

// String is the C name: "IBV_WC_RETRY_EXC_ERR".
func (s WCStatus) String() string {
	return cName("IBV_WC_", "ibv_wc_status", uint32(s),
		"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR",
		"MW_BIND_ERR", "BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR",
		"RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR", "REM_INV_RD_REQ_ERR", "REM_ABORT_ERR",
		"INV_EECN_ERR", "INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR",
		"TM_ERR", "TM_RNDV_INCOMPLETE")
}

// WCOpcode is what the completed work request was (enum ibv_wc_opcode). It is
// valid only if the status is [WCSuccess].
type WCOpcode uint32

// The completion opcodes.
const (
	WCSend            WCOpcode = 0        // a SEND of any kind
	WCRDMAWrite       WCOpcode = 1        // an RDMA WRITE, with immediate or without
	WCRDMARead        WCOpcode = 2        // an RDMA READ: its data has come
	WCCompSwap        WCOpcode = 3        // a compare-and-swap: the old value has come
	WCFetchAdd        WCOpcode = 4        // a fetch-and-add: the old value has come
	WCBindMW          WCOpcode = 5        // a bind of a memory window
	WCLocalInv        WCOpcode = 6        // an invalidation of a key of this side
	WCFlush           WCOpcode = 8        // a FLUSH: the peer's memory is where it was asked to be
	WCAtomicWrite     WCOpcode = 9        // an ATOMIC WRITE: the peer's word has the new value
	WCRecv            WCOpcode = 1 << 7   // a receive, which a SEND has filled
	WCRecvRDMAWithImm WCOpcode = 1<<7 + 1 // a receive, which a WRITE with immediate has taken: its memory is as it was
)

// String is the C name: "IBV_WC_RECV".
func (o WCOpcode) String() string {
	switch o {
	case WCRecv:
		return "IBV_WC_RECV"
	case WCRecvRDMAWithImm:
		return "IBV_WC_RECV_RDMA_WITH_IMM"
	}
	return cName("IBV_WC_", "ibv_wc_opcode", uint32(o),
		"SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV", "TSO", "FLUSH", "ATOMIC_WRITE")
}

// WCFlags says which optional fields of a completion are valid (enum ibv_wc_flags).
type WCFlags uint32

// The completion flags.
const (
	WCGRH      WCFlags = 1 << 0 // UD: the receive begins with a valid GRH
	WCWithImm  WCFlags = 1 << 1 // Imm is valid
	WCIPCsumOK WCFlags = 1 << 2 // raw packets only
	WCWithInv  WCFlags = 1 << 3 // InvalidatedRKey is valid
)

// String lists the flags by their C names, "0" for none.
func (f WCFlags) String() string {
	return cFlags("IBV_WC_", uint32(f), "GRH", "WITH_IMM", "IP_CSUM_OK", "WITH_INV")
}

// WC is one completion (struct ibv_wc, with the same layout in memory, so that
// the device's completions are written straight into the caller's slice). If the
// status is not [WCSuccess], only ID, Status, QPN and VendorErr are valid. It is a
// plain value, and refers to nothing.
type WC struct {
	ID        uint64   // of the work request
	Status    WCStatus // how it ended
	Opcode    WCOpcode // what it was
	VendorErr uint32   // for the device's maker
	ByteLen   uint32   // bytes that came: of a receive, a READ, an atomic, or the peer's WRITE with immediate (UD: with the GRH's 40)
	immOrRKey uint32   // see Imm and InvalidatedRKey
	QPN       uint32   // the queue pair it belongs to
	SrcQPN    uint32   // UD receives: the sender
	Flags     WCFlags  // which optional fields are valid
	PKeyIndex uint16   // UD receives on InfiniBand
	SLID      uint16   // UD receives on InfiniBand
	SL        uint8    // UD receives
	DLIDPath  uint8    // UD receives on InfiniBand
}

// Imm is the immediate data, in host order, if Flags has [WCWithImm], else 0.
func (wc *WC) Imm() uint32 {
	if wc.Flags&WCWithImm == 0 {
		return 0
	}
	return wc.immOrRKey
}

// InvalidatedRKey is the key that the message invalidated, if Flags has
// [WCWithInv], else 0.
func (wc *WC) InvalidatedRKey() uint32 {
	if wc.Flags&WCWithInv == 0 {
		return 0
	}
	return wc.immOrRKey
}

// SetImm makes the completion carry immediate data. For providers.
func (wc *WC) SetImm(imm uint32) { wc.immOrRKey, wc.Flags = imm, wc.Flags|WCWithImm }

// SetInvalidatedRKey sets the key that the message invalidated. For providers.
func (wc *WC) SetInvalidatedRKey(rkey uint32) { wc.immOrRKey, wc.Flags = rkey, wc.Flags|WCWithInv }

// Err is nil for a success, else a *[WCError]; making that allocates.
func (wc *WC) Err() error {
	if wc.Status == WCSuccess {
		return nil
	}
	return &WCError{ID: wc.ID, Status: wc.Status, VendorErr: wc.VendorErr, QPN: wc.QPN}
}

// WCError is a failed completion as an error; it has no errno. [WC.Err] makes it.
type WCError struct {
	ID        uint64   // of the work request
	Status    WCStatus // how it ended; never WCSuccess
	VendorErr uint32   // for the device's maker, 0 if there is none
	QPN       uint32   // the queue pair it belongs to
}

// Error names the status and what to look at.
func (e *WCError) Error() string {
	text := fmt.Sprintf("work request %d on QP %#06x completed with %v (%d)", e.ID, e.QPN, e.Status, uint32(e.Status))
	if e.VendorErr != 0 {
		text += fmt.Sprintf(", vendor error %#x", e.VendorErr)
	}
	if hint := statusHint(e.Status); hint != "" {
		text += ": " + hint
	}
	return text
}
