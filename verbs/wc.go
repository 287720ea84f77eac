// Work completions: the results of work requests.

package verbs

import (
	"encoding/binary"
	"fmt"
)

// WCStatus is the result of a work request (enum ibv_wc_status). A failure moves an RC queue pair to
// ERR. A failed send moves a UC or UD queue pair to SQE (rdma_rxe: to ERR). docs/errors.md explains
// each status and its remedy.
type WCStatus uint32

// The completion statuses.
const (
	WCSuccess        WCStatus = iota // success; the other fields are valid
	WCLocLenErr                      // a local buffer is too small for the message, or the message is too long for the port
	WCLocQPOpErr                     // the request does not fit the queue pair: its opcode, or a limit
	WCLocEECOpErr                    // reliable datagrams, which no device has
	WCLocProtErr                     // a local SGE is not within its region, or the region lacks a right
	WCWRFlushErr                     // not executed: the queue pair has left RTS for ERR, or for SQE (sends only)
	WCMWBindErr                      // a window could not be bound
	WCBadRespErr                     // the peer's response is invalid
	WCLocAccessErr                   // of a receive: the peer's WRITE with immediate had no right to the memory
	WCRemInvReqErr                   // the peer refused the request: its opcode, its length, or the rights of the peer's queue pair
	WCRemAccessErr                   // the peer refused access to its memory: key, bounds, rights or domain
	WCRemOpErr                       // the peer could not complete the request, for a reason on its own side
	WCRetryExcErr                    // no ACK came, even after RETRY_CNT resends
	WCRNRRetryExcErr                 // the peer had no receive posted, even after RNR_RETRY resends
	WCLocRDDViolErr                  // reliable datagrams, which no device has
	WCRemInvRDReqErr                 // reliable datagrams, which no device has
	WCRemAbortErr                    // the peer aborted the operation
	WCInvEECNErr                     // reliable datagrams, which no device has
	WCInvEECStateErr                 // reliable datagrams, which no device has
	WCFatalErr                       // the device failed
	WCRespTimeoutErr                 // the peer did not respond in time
	WCGeneralErr                     // any other error
)

// String returns the C name: "IBV_WC_RETRY_EXC_ERR".
func (s WCStatus) String() string {
	return cName("IBV_WC_", "ibv_wc_status", uint32(s),
		"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR",
		"MW_BIND_ERR", "BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR",
		"RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR", "REM_INV_RD_REQ_ERR", "REM_ABORT_ERR",
		"INV_EECN_ERR", "INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR",
		"TM_ERR", "TM_RNDV_INCOMPLETE")
}

// WCOpcode is the operation of the completed work request (enum ibv_wc_opcode). It is valid only if
// the status is [WCSuccess].
type WCOpcode uint32

// The completion opcodes.
const (
	WCSend            WCOpcode = 0        // a SEND of any kind
	WCRDMAWrite       WCOpcode = 1        // an RDMA WRITE, with or without immediate data
	WCRDMARead        WCOpcode = 2        // an RDMA READ: its data has arrived
	WCCompSwap        WCOpcode = 3        // a compare-and-swap: the old value has arrived
	WCFetchAdd        WCOpcode = 4        // a fetch-and-add: the old value has arrived
	WCBindMW          WCOpcode = 5        // a bind of a memory window
	WCLocalInv        WCOpcode = 6        // an invalidation of a key on this side
	WCFlush           WCOpcode = 8        // a FLUSH: the peer's memory has the requested placement
	WCAtomicWrite     WCOpcode = 9        // an ATOMIC WRITE: the peer's word has the new value
	WCRecv            WCOpcode = 1 << 7   // a receive that a SEND has filled
	WCRecvRDMAWithImm WCOpcode = 1<<7 + 1 // a receive that a WRITE with immediate has completed; the receive's memory is unchanged
)

// String returns the C name: "IBV_WC_RECV".
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

// String lists the flags by their C names. No flags give "0".
func (f WCFlags) String() string {
	return cFlags("IBV_WC_", uint32(f), "GRH", "WITH_IMM", "IP_CSUM_OK", "WITH_INV")
}

// WC is a completion (struct ibv_wc). It has the same layout in memory, so that C writes completions
// directly into the caller's slice. If the status is not [WCSuccess], only ID, Status, QPN and
// VendorErr are valid. WC is a plain value.
type WC struct {
	ID        uint64   // the work request's ID
	Status    WCStatus // the result
	Opcode    WCOpcode // the operation
	VendorErr uint32   // for the device's maker
	ByteLen   uint32   // received bytes of a receive, a READ, an atomic or a WRITE with immediate; on UD including the GRH's 40
	immOrRKey [4]byte  // see Imm, which is in network order, and InvalidatedRKey, in this host's
	QPN       uint32   // the queue pair of the work request
	SrcQPN    uint32   // UD receives: the sender's queue pair
	Flags     WCFlags  // which optional fields are valid
	PKeyIndex uint16   // UD receives on InfiniBand
	SLID      uint16   // UD receives on InfiniBand
	SL        uint8    // UD receives
	DLIDPath  uint8    // UD receives on InfiniBand
}

// Imm returns the immediate data in host order, or 0 if Flags lacks [WCWithImm].
func (wc *WC) Imm() uint32 {
	if wc.Flags&WCWithImm == 0 {
		return 0
	}
	return binary.BigEndian.Uint32(wc.immOrRKey[:])
}

// InvalidatedRKey returns the key that the message invalidated, or 0 if Flags lacks [WCWithInv].
func (wc *WC) InvalidatedRKey() uint32 {
	if wc.Flags&WCWithInv == 0 {
		return 0
	}
	return binary.NativeEndian.Uint32(wc.immOrRKey[:])
}

// SetImm sets the immediate data. For providers.
func (wc *WC) SetImm(imm uint32) {
	binary.BigEndian.PutUint32(wc.immOrRKey[:], imm)
	wc.Flags |= WCWithImm
}

// SetInvalidatedRKey sets the key that the message invalidated. For providers.
func (wc *WC) SetInvalidatedRKey(rkey uint32) {
	binary.NativeEndian.PutUint32(wc.immOrRKey[:], rkey)
	wc.Flags |= WCWithInv
}

// Err returns nil for a success and a *[WCError] otherwise, which allocates.
func (wc *WC) Err() error {
	if wc.Status == WCSuccess {
		return nil
	}
	return &WCError{ID: wc.ID, Status: wc.Status, VendorErr: wc.VendorErr, QPN: wc.QPN}
}

// WCError is a failed completion as an error. It has no errno. [WC.Err] makes it.
type WCError struct {
	ID        uint64   // the work request's ID
	Status    WCStatus // the result; never WCSuccess
	VendorErr uint32   // for the device's maker; 0 if there is none
	QPN       uint32   // the queue pair of the work request
}

// Error returns the request, the queue pair, the status and what to check.
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
