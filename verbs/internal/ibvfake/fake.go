//go:build linux && cgo

// Package ibvfake makes struct ibv_qp, ibv_srq and ibv_cq objects with simple C functions
// as their operations. Tests use it to check the cost and the encoding of posts and polls
// without a device.
package ibvfake

/*
#cgo noescape fake_cross
#cgo nocallback fake_cross
#include "fake.h"
*/
import "C"

import (
	"encoding/binary"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Fake has one queue pair, one SRQ and one completion queue, which is also an extended
// completion queue. It is for one goroutine at a time.
type Fake struct{ f *C.struct_fake }

// New returns a Fake. The caller must call Free.
func New() *Fake { return &Fake{C.fake_new()} }

// Free frees the memory of the Fake.
func (f *Fake) Free() { C.free(unsafe.Pointer(f.f)) }

// QP returns the struct ibv_qp *.
func (f *Fake) QP() unsafe.Pointer { return unsafe.Pointer(&f.f.ex.qp_base) }

// Builder returns the struct ibv_qp_ex *, for the ibv_wr_* calls.
func (f *Fake) Builder() unsafe.Pointer { return unsafe.Pointer(&f.f.ex) }

// PD returns a struct ibv_pd * in which the struct ibv_qp_ex * of Builder can be created.
func (f *Fake) PD() unsafe.Pointer { return unsafe.Pointer(&f.f.pd) }

// RefuseAtomicWrite makes the creation of a queue pair with the call for ATOMIC WRITE fail.
func (f *Fake) RefuseAtomicWrite(errno syscall.Errno) { f.f.refuse_ops = C.int(errno) }

// Creates returns, for each queue pair that was asked for, whether it was to have ATOMIC WRITE.
func (f *Fake) Creates() (atomicWrite []bool) {
	for i := range f.f.creates {
		atomicWrite = append(atomicWrite, f.f.ops[i]&C.IBV_QP_EX_WITH_ATOMIC_WRITE != 0)
	}
	return atomicWrite
}

// MW returns a struct ibv_mw * of type 2 with rkey 0x700. It cannot be closed.
func (f *Fake) MW() unsafe.Pointer { return unsafe.Pointer(&f.f.mw) }

// MR returns a struct ibv_mr * with lkey and rkey 0x900. It cannot be closed.
func (f *Fake) MR() unsafe.Pointer { return unsafe.Pointer(&f.f.mr) }

// AH returns the struct ibv_ah *, which is valid until FreeAH.
func (f *Fake) AH() unsafe.Pointer { return unsafe.Pointer(&f.f.ah) }

// FreeAH invalidates the address handle.
func (f *Fake) FreeAH() { f.f.ah.handle = 0 }

// Lost returns the number of datagrams that were posted after FreeAH.
func (f *Fake) Lost() int { return int(f.f.lost) }

// Inlined returns the number of requests that were built with inline data.
func (f *Fake) Inlined() int { return int(f.f.inlined) }

// AtomicWrite returns the word of the last ATOMIC WRITE.
func (f *Fake) AtomicWrite() uint64 { return uint64(f.f.atomic_write) }

// CQ returns the struct ibv_cq *.
func (f *Fake) CQ() unsafe.Pointer { return unsafe.Pointer(&f.f.cq) }

// SRQ returns the struct ibv_srq *.
func (f *Fake) SRQ() unsafe.Pointer { return unsafe.Pointer(&f.f.srq) }

// Batches returns the number of calls of start_poll, next_poll and end_poll.
func (f *Fake) Batches() (starts, nexts, ends int) {
	return int(f.f.starts), int(f.f.nexts), int(f.f.ends)
}

// Calls returns the number of posts.
func (f *Fake) Calls() int { return int(f.f.posts) }

// WRs returns the number of work requests that were queued.
func (f *Fake) WRs() int { return int(f.f.wrs) }

// Datagrams makes the queue pair a UD queue pair.
func (f *Fake) Datagrams() { f.f.ex.qp_base.qp_type = C.IBV_QPT_UD }

// Refuse makes every post refuse request i of its chain with errno. -1 refuses no request.
// -2 lets a post of sends fail after the last request, without a bad_wr.
func (f *Fake) Refuse(i int, errno syscall.Errno) {
	f.f.refuse_at, f.f.errnum = C.int(i), C.int(errno)
}

// Block makes each ibv_post_send wait for Release, or for the limit.
func (f *Fake) Block(limit time.Duration) { f.f.wait_ms = C.int(limit.Milliseconds()) }

// Blocked reports whether an ibv_post_send waits. Any goroutine may call it.
func (f *Fake) Blocked() bool { return atomic.LoadInt32(f.waiting()) != 0 }

// Release ends the wait of an ibv_post_send. Any goroutine may call it.
func (f *Fake) Release() { atomic.StoreInt32(f.waiting(), 0) }

func (f *Fake) waiting() *int32 { return (*int32)(unsafe.Pointer(&f.f.waiting)) }

// Completes makes each poll return up to n copies of a completion with an immediate. If n
// is negative, each poll fails with errno.
func (f *Fake) Completes(n int, id uint64, imm uint32, errno syscall.Errno) {
	f.f.polled, f.f.left, f.f.errnum = C.int(n), C.int(n), C.int(errno)
	f.f.wc.wr_id = C.uint64_t(id)
	f.f.wc.opcode = C.IBV_WC_RECV
	f.f.wc.wc_flags = C.IBV_WC_WITH_IMM
	f.f.wc.byte_len = 77
	f.f.wc.qp_num = 0x11
	f.f.wc.src_qp = 0x22
	f.f.wc.slid = 0x33
	f.f.wc.sl = 4
	f.f.wc.dlid_path_bits = 9
	binary.BigEndian.PutUint32(f.f.wc.anon0[:], imm)
}

// Empty makes the next n polls return no completion.
func (f *Fake) Empty(n int) { f.f.empty = C.long(n) }

// Polls returns the number of polls.
func (f *Fake) Polls() int { return int(f.f.polls) }

// Fails sets the status and vendor error of the completions.
func (f *Fake) Fails(status, vendorErr uint32) {
	f.f.wc.status, f.f.wc.vendor_err = status, C.uint32_t(vendorErr)
}

// Sent is a send work request as C received it.
type Sent struct {
	ID         uint64
	Opcode     uint32
	Flags      uint32
	NumSGE     int
	Addr       uint64
	Length     uint32
	LKey       uint32
	ImmWire    uint32 // the bytes of the immediate, read as big-endian
	RemoteAddr uint64
	RKey       uint32
	CompareAdd uint64
	Swap       uint64
	AtomicRKey uint32

	InvalidateRKey uint32
}

// Bound is a bind request as C received it.
type Bound struct {
	MW, MR       unsafe.Pointer
	RKey         uint32
	Addr, Length uint64
	Access       uint32
}

// Bind returns request i (0…3) of the last post, a bind.
func (f *Fake) Bind(i int) Bound {
	var b C.struct_ibv_send_wr = f.f.last_send[i]
	mw := (*struct {
		mw           unsafe.Pointer
		rkey         uint32
		mr           unsafe.Pointer
		addr, length uint64
		access       uint32
	})(unsafe.Pointer(&b.anon1))
	return Bound{mw.mw, mw.mr, mw.rkey, mw.addr, mw.length, mw.access}
}

// Send returns request i (0…3) of the last post, a send.
func (f *Fake) Send(i int) Sent {
	w, s := &f.f.last_send[i], &f.f.last_sge[i]
	rdma := (*struct {
		addr uint64
		rkey uint32
	})(unsafe.Pointer(&w.wr))
	atomic := (*struct {
		addr, compare, swap uint64
		rkey                uint32
	})(unsafe.Pointer(&w.wr))
	return Sent{
		ID: uint64(w.wr_id), Opcode: uint32(w.opcode), Flags: uint32(w.send_flags), NumSGE: int(w.num_sge),
		Addr: uint64(s.addr), Length: uint32(s.length), LKey: uint32(s.lkey),
		ImmWire:    binary.BigEndian.Uint32(w.anon0[:]),
		RemoteAddr: rdma.addr, RKey: rdma.rkey,
		CompareAdd: atomic.compare, Swap: atomic.swap, AtomicRKey: atomic.rkey,
		InvalidateRKey: binary.NativeEndian.Uint32(w.anon0[:]),
	}
}

// RecvID returns the ID of receive i (0…3) of the last post, the address of its first
// element and its number of elements.
func (f *Fake) RecvID(i int) (id, addr uint64, sges int) {
	return uint64(f.f.last_recv[i].wr_id), uint64(f.f.last_sge[i].addr), int(f.f.last_recv[i].num_sge)
}

// PostInC posts a chain of batch requests n times from C. Benchmarks compare a post from Go
// with it.
func (f *Fake) PostInC(batch, n int) {
	chain := unsafe.Slice((*C.struct_ibv_send_wr)(C.calloc(C.size_t(batch), C.sizeof_struct_ibv_send_wr)), batch)
	defer C.free(unsafe.Pointer(&chain[0]))
	for i := range batch - 1 {
		chain[i].next = &chain[i+1]
	}
	C.fake_loop_send(f.f, &chain[0], C.long(n))
}

// Cross calls a C function that does nothing.
func (f *Fake) Cross() { C.fake_cross(f.f) }

// PollInC polls n times from C for up to batch completions.
func (f *Fake) PollInC(batch, n int) {
	wcs := (*C.struct_ibv_wc)(C.calloc(C.size_t(batch), C.sizeof_struct_ibv_wc))
	defer C.free(unsafe.Pointer(wcs))
	C.fake_loop_poll(f.f, C.int(batch), wcs, C.long(n))
}
