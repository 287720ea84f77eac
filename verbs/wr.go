// Work requests: the operations that a program posts to a queue pair.

package verbs

// SGE is a piece of registered memory (struct ibv_sge). A list of SGEs says where received bytes go
// or where sent bytes come from. [MR.SGE] makes an SGE. It is a plain value and does not keep its
// region open.
type SGE struct {
	Addr   uint64 // address within the region of LKey, as in MR.Addr
	Length uint32 // bytes
	LKey   uint32 // the region's LKey; not needed for inline data
}

// Opcode is the operation of a send work request (enum ibv_wr_opcode, with other values). The zero
// value is not a valid opcode.
type Opcode uint32

// The opcodes of send work requests.
const (
	_                    Opcode = iota // unset
	OpRDMAWrite                        // write to the peer's memory; the peer gets no completion
	OpRDMAWriteWithImm                 // write to the peer's memory, and complete one of the peer's receives with Imm
	OpSend                             // fill one of the peer's receives
	OpSendWithImm                      // fill one of the peer's receives, with Imm in its completion
	OpRDMARead                         // read the peer's memory
	OpAtomicCmpAndSwp                  // write Swap to 8 bytes of the peer's memory if they equal CompareAdd; the old value goes to the SGL
	OpAtomicFetchAndAdd                // add CompareAdd to 8 bytes of the peer's memory; the old value goes to the SGL
	OpLocalInv                         // invalidate the key of a memory window of type 2 on this side
	OpBindMW                           // bind a memory window of type 2
	OpSendWithInvalidate               // fill one of the peer's receives, and invalidate one of the peer's rkeys
	OpTSO                              // raw packets only; posting it is EINVAL
	OpFlush                            // complete after the peer's memory named by Flush has the placement Flush.Type
	OpAtomicWrite                      // write 8 bytes to an aligned word of the peer's memory atomically, after all earlier requests
)

// String returns the C name: "IBV_WR_SEND". The zero value gives "unset".
func (o Opcode) String() string {
	if o == 0 {
		return "unset"
	}
	return cName("IBV_WR_", "verbs.Opcode", uint32(o), "",
		"RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "RDMA_READ", "ATOMIC_CMP_AND_SWP",
		"ATOMIC_FETCH_AND_ADD", "LOCAL_INV", "BIND_MW", "SEND_WITH_INV", "TSO", "FLUSH", "ATOMIC_WRITE")
}

// SendFlags modify a send work request (enum ibv_send_flags). 0 means no flags.
type SendFlags uint32

// The send flags.
const (
	SendFence     SendFlags = 1 << 0 // wait for this QP's earlier READs and atomics first
	SendSignaled  SendFlags = 1 << 1 // generate a completion even if the QP's SigAll is off
	SendSolicited SendFlags = 1 << 2 // wake a peer that waits for solicited completions only
	// SendInline copies the data during the post; the buffer may be reused at once. The data is
	// read from SGE.Addr as an address of this process and need not be registered. EINVAL for an
	// SGE of a region with other addresses (IOVA, AccessZeroBased, a DMA-BUF), which the SGE's
	// LKey identifies. With another LKey a wrong address is not detected.
	SendInline SendFlags = 1 << 3
)

// String lists the flags by their C names. No flags give "0".
func (f SendFlags) String() string {
	return cFlags("IBV_SEND_", uint32(f), "FENCE", "SIGNALED", "SOLICITED", "INLINE")
}

// SendWR is a send work request (struct ibv_send_wr). Fields that the opcode does not use are
// ignored. A post reads the SendWR and does not keep it. The memory named by the SGL belongs to the
// device until the completion. Opcode must be set.
type SendWR struct {
	ID     uint64    // returned in the completion
	Opcode Opcode    // the operation; 0 is EINVAL
	Flags  SendFlags // 0: a completion only if the queue pair has SigAll, or if the request fails
	SGL    []SGE     // the source; for READ and atomics the destination
	Imm    uint32    // for *WithImm: in host order here, big-endian on the wire

	InvalidateRKey uint32 // OpSendWithInvalidate, OpLocalInv: the key to invalidate

	RemoteAddr uint64 // RDMA, atomics and FLUSH: an address in the peer's region
	RKey       uint32 // RDMA, atomics and FLUSH: the rkey of the peer's region
	CompareAdd uint64 // atomics: the value to compare with, or the value to add
	Swap       uint64 // OpAtomicCmpAndSwp: the new value

	Flush Flush // OpFlush: the peer's memory, and where its data must be

	Bind *MWBind // OpBindMW: the window and what to bind it to; not nil

	AH         *AH    // UD: the path to the peer, of the queue pair's domain; not nil
	RemoteQPN  uint32 // UD: the peer's queue pair number, 24 bits
	RemoteQKey uint32 // UD: the peer's queue key; if its highest bit is set, the device sends this queue pair's own key (rdma_rxe sends RemoteQKey)
}

// RecvWR is a receive work request: memory for one message (struct ibv_recv_wr). A post reads the
// RecvWR and does not keep it. The zero value can receive a message without bytes, such as an
// immediate.
type RecvWR struct {
	ID  uint64 // returned in the completion
	SGL []SGE  // filled in order; a UD receive begins with 40 bytes of GRH
}
