// The completion statuses (enum ibv_wc_status).

package diagnosis

// status makes the entry of a status that queue pairs of RC, UC and UD report.
func status(number int, name, text, cause, remedy string) Entry {
	e := rare(number, name, text, cause, remedy)
	e.Section = Completions
	return e
}

// rare makes the entry of a status that docs/errors.md leaves out.
func rare(number int, name, text, cause, remedy string) Entry {
	return Entry{Kind: Status, Number: number, Name: "IBV_WC_" + name, Text: text, Cause: cause, Remedy: remedy}
}

const (
	noRD = "a status of reliable datagrams, which no device has"
	noTM = "a status of tag matching, which this library does not use"
	odd  = "read the device's documentation and the kernel's log: no device should report this status"
)

var statuses = []group{{"docs/errors.md#completions", []Entry{
	rare(0, "SUCCESS", "success", "the request succeeded; after a failure only wr_id, status, qp_num and vendor_err are valid", "do nothing: this is not an error"),
	status(1, "LOC_LEN_ERR", "local length error", "a local buffer was too small for the message or, for an atomic, longer than 8 bytes; or the peers' path MTUs differ", "post larger receives; use the smaller path MTU at both ends"),
	status(2, "LOC_QP_OP_ERR", "local QP operation error", "the request does not fit the queue pair (opcode, length or a limit of the queue pair); or the peers' path MTUs differ",
		"use an opcode and a length that this queue pair has; use the smaller path MTU at both ends"),
	rare(3, "LOC_EEC_OP_ERR", "local EE context operation error", noRD, odd),
	status(4, "LOC_PROT_ERR", "local protection error", "a local SGE is refused: its lkey, range or protection domain is wrong, its MR is closed, or the region lacks LOCAL_WRITE, which receives, READs and atomics need",
		"use an SGE within an MR of the queue pair's PD, and keep the MR open until the completion"),
	status(5, "WR_FLUSH_ERR", "Work Request Flushed Error", "the queue pair was in ERR or SQE before the request was complete; the peer may have carried it out", "look for the first completion whose status is not this one; if there is none, for the asynchronous event, or the peer's completion"),
	status(6, "MW_BIND_ERR", "memory management operation error", "the window's region lacks MW_BIND (or LOCAL_WRITE, if the peer may write), is too small or of another protection domain; the window is already bound; or no window with the key to invalidate is bound on this queue pair",
		"use a region with MW_BIND; invalidate the window before the next bind"),
	rare(7, "BAD_RESP_ERR", "bad response error", "the peer's answer breaks the protocol", "use the same version of the protocol at both ends; look at the packets (docs/on-the-wire.md)"),
	rare(8, "LOC_ACCESS_ERR", "local access error", "the peer's WRITE with immediate had no right to the memory here", "check the rkey, the range and the rights that the peer uses"),
	status(9, "REM_INV_REQ_ERR", "remote invalid request error", "the peer refused the request: its QP lacks the access flag, max_dest_rd_atomic is 0 there, its receive is too small, or the address of an atomic or ATOMIC WRITE is not a multiple of 8; with long messages, the peers' path MTUs differ",
		"check these in turn"),
	status(10, "REM_ACCESS_ERR", "remote access error", "the peer refused the memory: rkey, address, length, the region's access flags or its protection domain (an lkey is not an rkey)",
		"compare the request with the region that the peer prints"),
	status(11, "REM_OP_ERR", "remote operation error", "the peer could not complete the request (rdma_rxe: its receive was too small)", "look at the peer's own completion, which says why"),
	status(12, "RETRY_EXC_ERR", "transport retry counter exceeded", "no ACK came: the peer's program is gone, stopped or overloaded, its queue pair is not yet in RTR or already in ERR, QPN, GID or PSN is wrong, UDP port 4791 is filtered, or path_mtu does not fit the link",
		"look at the peer's output and load; compare the endpoints that both ends print; look at the firewall; capture udp port 4791"),
	status(13, "RNR_RETRY_EXC_ERR", "RNR retry counter exceeded", "the peer had no receive posted", "post receives before RTR, and repost each one before the peer sends again"),
	rare(14, "LOC_RDD_VIOL_ERR", "local RDD violation error", noRD, odd),
	rare(15, "REM_INV_RD_REQ_ERR", "remote invalid RD request", noRD, odd),
	rare(16, "REM_ABORT_ERR", "aborted error", "the peer aborted the operation", "read the peer's output, which says why"),
	rare(17, "INV_EECN_ERR", "invalid EE context number", noRD, odd),
	rare(18, "INV_EEC_STATE_ERR", "invalid EE context state", noRD, odd),
	rare(19, "FATAL_ERR", "fatal error", "the device failed", "read the kernel's log (dmesg); open the device again"),
	rare(20, "RESP_TIMEOUT_ERR", "response timeout error", "the peer did not answer in time", "do what helps against RETRY_EXC_ERR (12)"),
	rare(21, "GENERAL_ERR", "general error", "the device failed", "read the kernel's log (dmesg); open the device again"),
	rare(22, "TM_ERR", "TM error", noTM, odd),
	rare(23, "TM_RNDV_INCOMPLETE", "TM software rendezvous", noTM, odd),
}}}
