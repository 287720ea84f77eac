//go:build linux && cgo && !nolibibverbs

// The C wall: the opcodes of work requests as libibverbs numbers them.

package verbs

// #include "ibv_shim.h"
import "C"

// opcodeRoom is a power of two above the opcodes, so that looking up opcode%opcodeRoom needs no
// bounds check. Opcodes without a row are refused elsewhere.
const opcodeRoom = 32

// wrOpcodes maps each opcode to C's value. OpFlush is missing because rdma-core 44, with which this
// package is built, has no FLUSH.
var wrOpcodes = [opcodeRoom]C.enum_ibv_wr_opcode{
	OpRDMAWrite:          C.IBV_WR_RDMA_WRITE,
	OpRDMAWriteWithImm:   C.IBV_WR_RDMA_WRITE_WITH_IMM,
	OpSend:               C.IBV_WR_SEND,
	OpSendWithImm:        C.IBV_WR_SEND_WITH_IMM,
	OpRDMARead:           C.IBV_WR_RDMA_READ,
	OpAtomicCmpAndSwp:    C.IBV_WR_ATOMIC_CMP_AND_SWP,
	OpAtomicFetchAndAdd:  C.IBV_WR_ATOMIC_FETCH_AND_ADD,
	OpLocalInv:           C.IBV_WR_LOCAL_INV,
	OpBindMW:             C.IBV_WR_BIND_MW,
	OpSendWithInvalidate: C.IBV_WR_SEND_WITH_INV,
	OpTSO:                C.IBV_WR_TSO,
	OpAtomicWrite:        C.IBV_WR_ATOMIC_WRITE,
}

// needsAnswer reports whether only reliable queue pairs have the opcode.
func needsAnswer(o Opcode) bool {
	return o == OpRDMARead || o == OpAtomicCmpAndSwp || o == OpAtomicFetchAndAdd || o == OpSendWithInvalidate
}
