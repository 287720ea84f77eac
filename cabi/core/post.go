//go:build linux && cgo

// Posting sends: struct ibv_send_wr becomes verbs.SendWR.

package main

// #include "../core.h"
import "C"

import (
	"fmt"
	"math/bits"
	"sync"
	"syscall"
	"unsafe"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// posts keeps the slices of a queue pair's sends.
type posts struct {
	mu  sync.Mutex
	wrs []verbs.SendWR
}

// opcodes has package verbs' opcode for each of C's. The unset ones are refused.
var opcodes = [...]verbs.Opcode{
	C.IBV_WR_RDMA_WRITE:           verbs.OpRDMAWrite,
	C.IBV_WR_RDMA_WRITE_WITH_IMM:  verbs.OpRDMAWriteWithImm,
	C.IBV_WR_SEND:                 verbs.OpSend,
	C.IBV_WR_SEND_WITH_IMM:        verbs.OpSendWithImm,
	C.IBV_WR_RDMA_READ:            verbs.OpRDMARead,
	C.IBV_WR_ATOMIC_CMP_AND_SWP:   verbs.OpAtomicCmpAndSwp,
	C.IBV_WR_ATOMIC_FETCH_AND_ADD: verbs.OpAtomicFetchAndAdd,
	C.IBV_WR_LOCAL_INV:            verbs.OpLocalInv,
	C.IBV_WR_BIND_MW:              verbs.OpBindMW,
	C.IBV_WR_SEND_WITH_INV:        verbs.OpSendWithInvalidate,
	C.RV_WR_FLUSH:                 verbs.OpFlush,
	atomicWrite:                   verbs.OpAtomicWrite,
}

const atomicWrite = 15 // IBV_WR_ATOMIC_WRITE, which old headers lack

// sges views a list of elements, which has the layout of verbs.SGE.
func sges(list *C.struct_ibv_sge, n C.int) []verbs.SGE {
	if list == nil || n <= 0 {
		return nil
	}
	return unsafe.Slice((*verbs.SGE)(unsafe.Pointer(list)), int(n))
}

var (
	_ [unsafe.Sizeof(verbs.SGE{}) - C.sizeof_struct_ibv_sge]byte
	_ [C.sizeof_struct_ibv_sge - unsafe.Sizeof(verbs.SGE{})]byte
)

// field reads a field of a union of a work request.
func field[T any](w *C.struct_ibv_send_wr, offset uintptr) T {
	return *(*T)(unsafe.Add(unsafe.Pointer(w), offset))
}

// decode fills s, which is zero.
func (q *qp) decode(s *verbs.SendWR, w *C.struct_ibv_send_wr) {
	s.ID, s.Flags, s.SGL = uint64(w.wr_id), verbs.SendFlags(w.send_flags), sges(w.sg_list, w.num_sge)
	if int(w.opcode) < len(opcodes) {
		s.Opcode = opcodes[w.opcode]
	}
	switch s.Opcode {
	case verbs.OpSendWithImm, verbs.OpRDMAWriteWithImm:
		s.Imm = bits.ReverseBytes32(field[uint32](w, C.RV_WR_IMM))
	case verbs.OpSendWithInvalidate, verbs.OpLocalInv:
		s.InvalidateRKey = field[uint32](w, C.RV_WR_IMM)
	}
	switch s.Opcode {
	case verbs.OpRDMAWrite, verbs.OpRDMAWriteWithImm, verbs.OpRDMARead, verbs.OpAtomicWrite:
		s.RemoteAddr, s.RKey = field[uint64](w, C.RV_WR_RDMA_ADDR), field[uint32](w, C.RV_WR_RDMA_RKEY)
	case verbs.OpAtomicCmpAndSwp, verbs.OpAtomicFetchAndAdd:
		s.RemoteAddr, s.RKey = field[uint64](w, C.RV_WR_ATOMIC_ADDR), field[uint32](w, C.RV_WR_ATOMIC_RKEY)
		s.CompareAdd, s.Swap = field[uint64](w, C.RV_WR_ATOMIC_COMPARE_ADD), field[uint64](w, C.RV_WR_ATOMIC_SWAP)
	case verbs.OpFlush:
		s.RemoteAddr, s.RKey = field[uint64](w, C.RV_WR_ATOMIC_ADDR), field[uint32](w, C.RV_WR_ATOMIC_RKEY)
		kinds := field[uint64](w, C.RV_WR_ATOMIC_SWAP)
		s.Flush = verbs.Flush{Length: uint32(field[uint64](w, C.RV_WR_ATOMIC_COMPARE_ADD)), Type: verbs.FlushType(kinds), Level: verbs.FlushLevel(kinds >> 8)}
	case verbs.OpSend, verbs.OpSendWithImm:
		if q.Type() == verbs.UD {
			if ah := field[*C.struct_ibv_ah](w, C.RV_WR_UD_AH); ah != nil {
				s.AH = ahs.get((*C.struct_rv_ah)(unsafe.Pointer(ah)).handle).AH
			}
			s.RemoteQPN, s.RemoteQKey = field[uint32](w, C.RV_WR_UD_QPN), field[uint32](w, C.RV_WR_UD_QKEY)
		}
	case verbs.OpBindMW:
		s.Bind = bindOf((*C.struct_rv_bind)(unsafe.Add(unsafe.Pointer(w), C.RV_WR_BIND)))
	}
}

func bindOf(b *C.struct_rv_bind) *verbs.MWBind {
	bind := infoOf(&b.info)
	if b.mw != nil {
		bind.MW = mws.get((*C.struct_rv_mw)(unsafe.Pointer(b.mw)).handle).MW
		bind.RKey = bind.MW.RKey()&^0xff | uint32(b.rkey)&0xff // the program chooses only the low bits
	}
	return bind
}

func infoOf(i *C.struct_ibv_mw_bind_info) *verbs.MWBind {
	// The peer's rights are all that a window has. Hardware ignores the right to write that programs
	// add for themselves.
	access := verbs.Access(i.mw_access_flags) &^ verbs.AccessLocalWrite
	b := &verbs.MWBind{Addr: uint64(i.addr), Length: uint64(i.length), Access: access}
	if i.mr != nil {
		if m := mrs.get((*C.struct_rv_mr)(unsafe.Pointer(i.mr)).handle); m != nil {
			b.MR = m.MR
		}
	}
	return b
}

//export rv_bind_mw
func rv_bind_mw(handle, window C.rv_handle, bind *C.struct_ibv_mw_bind, rkey *C.uint32_t) C.int {
	b := infoOf(&bind.bind_info)
	b.MW = mws.get(window).MW
	if err := qps.get(handle).BindMW(uint64(bind.wr_id), verbs.SendFlags(bind.send_flags), *b); err != nil {
		return errnoOf(err)
	}
	*rkey = C.uint32_t(b.MW.RKey())
	return 0
}

//export rv_post_send
func rv_post_send(handle C.rv_handle, wr *C.struct_ibv_send_wr, bad **C.struct_ibv_send_wr) C.int {
	q := qps.get(handle)
	q.posts.mu.Lock()
	defer q.posts.mu.Unlock()
	wrs := q.wrs[:0]
	var cut error
	for w := wr; w != nil; w = w.next {
		if cut = cutAt(len(wrs), "ibv_post_send", w.sg_list, w.num_sge); cut != nil {
			break
		}
		wrs = append(wrs, verbs.SendWR{})
		q.decode(&wrs[len(wrs)-1], w)
	}
	q.wrs = wrs
	err := posted(wrs, cut, q.PostSend)
	clear(wrs) // hold no window and no address handle
	if err != nil {
		*bad = wr
		for range refusedAt(err) {
			*bad = (*bad).next
		}
	}
	return errnoOf(err)
}

// longest is a number of requests that no queue of the device holds.
const longest = 1 << 15

// cutAt returns the error of the request with index i if the chain ends before it.
func cutAt(i int, op string, list *C.struct_ibv_sge, n C.int) error {
	switch {
	case list == nil && n > 0:
		return &verbs.PostError{Op: op, Index: i, Err: syscall.EINVAL, Reason: fmt.Sprintf("num_sge is %d, and sg_list is NULL", int(n))}
	case i == longest: // a request whose next is an earlier one, perhaps
		return &verbs.PostError{Op: op, Index: i, Err: syscall.ENOMEM, Reason: "the chain of next is longer than any queue"}
	}
	return nil
}

// posted posts a chain up to the place where it was cut.
func posted[WR any](wrs []WR, cut error, post func([]WR) error) error {
	if cut != nil && len(wrs) == 0 {
		return cut
	}
	if err := post(wrs); err != nil {
		return err
	}
	return cut
}

// refusedAt returns the index of the request that a post refused.
func refusedAt(err error) int {
	var refused *verbs.PostError
	if errors.As(err, &refused) {
		return refused.Index
	}
	return 0
}
