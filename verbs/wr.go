// Work requests: what a program asks a queue pair to do.

package verbs

// SGE is a piece of registered memory (struct ibv_sge): scatter lists say where
// received bytes go, gather lists where sent bytes come from. [MR.SGE] makes one. It is
// a plain value, which does not keep its region open.
type SGE struct {
	Addr   uint64 // virtual address, within the region of LKey, as MR.Addr counts
	Length uint32 // bytes
	LKey   uint32 // of the region; inline data needs none
}

// Opcode is what a send work request does (enum ibv_wr_opcode, whose values differ).
// The zero value is unset, and no post takes it.
type Opcode uint32

// The opcodes of send work requests.
const (
	_                    Opcode = iota // unset
	OpRDMAWrite                        // write to the peer's memory; the peer sees no completion
	OpRDMAWriteWithImm                 // the same, and complete one of the peer's receives with Imm
	OpSend                             // fill one of the peer's receives
	OpSendWithImm                      // the same, with Imm in the peer's completion
	OpRDMARead                         // read the peer's memory
	OpAtomicCmpAndSwp                  // swap 8 bytes of the peer's memory if they equal CompareAdd; the old value goes to the SGL
	OpAtomicFetchAndAdd                // add CompareAdd to 8 bytes of the peer's memory; the old value goes to the SGL
	OpLocalInv                         // invalidate the key of this side's memory window of type 2
	OpBindMW                           // bind a memory window of type 2
	OpSendWithInvalidate               // send, and invalidate one of the peer's rkeys
	OpTSO                              // raw packets only; posting it is EINVAL
	OpFlush                            // complete once the peer's memory that Flush names is where Flush.Type says
	OpAtomicWrite                      // write 8 bytes to an aligned word of the peer's memory in one piece, after all earlier requests
)

// String is the C name: "IBV_WR_SEND"; "unset" for the zero value.
func (o Opcode) String() string {
	if o == 0 {
		return "unset"
	}
	return cName("IBV_WR_", "verbs.Opcode", uint32(o), "",
		"RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "RDMA_READ", "ATOMIC_CMP_AND_SWP",
		"ATOMIC_FETCH_AND_ADD", "LOCAL_INV", "BIND_MW", "SEND_WITH_INV", "TSO", "FLUSH", "ATOMIC_WRITE")
}

// SendFlags modify a send work request (enum ibv_send_flags); 0 is none.
type SendFlags uint32

// The send flags.
const (
	SendFence     SendFlags = 1 << 0 // wait for this QP's earlier READs and atomics first
	SendSignaled  SendFlags = 1 << 1 // complete on the CQ even if the QP's SigAll is off
	SendSolicited SendFlags = 1 << 2 // wake a peer that waits for solicited events only
	// SendInline copies the data at post time; the buffer is free at once. It is
	// read from SGE.Addr as an address of this process, which need not be registered:
	// EINVAL for an SGE of a region under other addresses (IOVA, AccessZeroBased, a
	// DMA-BUF), which its LKey tells. Without that key a wrong address is not noticed.
	SendInline SendFlags = 1 << 3
)

// String lists the flags by their C names, "0" for none.
func (f SendFlags) String() string {
	return cFlags("IBV_SEND_", uint32(f), "FENCE", "SIGNALED", "SOLICITED", "INLINE")
}

// SendWR asks the send queue for one operation (struct ibv_send_wr). Fields that
// the opcode does not use are ignored. It is read by the post, and not kept; what its
// SGL names belongs to the device until the completion. The zero value cannot be posted:
// set Opcode.
type SendWR struct {
	ID     uint64    // comes back in the completion
	Opcode Opcode    // what to do; a post refuses 0 with EINVAL
	Flags  SendFlags // 0: completes only if the queue pair has SigAll, or if it fails
	SGL    []SGE     // source, or for READ and atomics the destination
	Imm    uint32    // *WithImm: host order here, big-endian on the wire

	InvalidateRKey uint32 // OpSendWithInvalidate, OpLocalInv: the key to invalidate

	RemoteAddr uint64 // RDMA, atomics and FLUSH: an address in the peer's region
	RKey       uint32 // RDMA, atomics and FLUSH: the peer's region's rkey
	CompareAdd uint64 // atomics: the value to compare with, or the value to add
	Swap       uint64 // OpAtomicCmpAndSwp: the value to put in

	Flush Flush // OpFlush: how much of the peer's memory, and how far

	Bind *MWBind // OpBindMW: which window, to what; not nil

	AH         *AH    // UD: the way to the peer, of the queue pair's domain; not nil
	RemoteQPN  uint32 // UD: the peer's queue pair number, 24 bits
	RemoteQKey uint32 // UD: the peer's queue key; with its highest bit set, this queue pair's own is sent (rdma_rxe sends it as it is)
}

// RecvWR gives the receive queue one place for a message (struct ibv_recv_wr). It is
// read by the post, and not kept. The zero value takes a message without bytes, such as
// an immediate.
type RecvWR struct {
	ID  uint64 // comes back in the completion
	SGL []SGE  // filled in order; a UD receive begins with 40 bytes of GRH
}
