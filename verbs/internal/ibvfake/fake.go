//go:build linux && cgo

// Package ibvfake makes struct ibv_qp, ibv_srq and ibv_cq objects whose table of
// operations is a few lines of C, so that the cost and the encoding of a post and
// a poll can be tested without a device. Only tests import it.
package ibvfake

/*
#cgo noescape fake_cross
#cgo nocallback fake_cross
#include "fake.h"
*/
import "C"

import (
	"encoding/binary"
	"syscall"
	"time"
	"unsafe"
)

// Fake is one queue pair, one SRQ and one completion queue, which is extended too.
type Fake struct{ f *C.struct_fake }

// New makes a fake; Free ends it.
func New() *Fake { return &Fake{C.fake_new()} }

// Free gives its memory back.
func (f *Fake) Free() { C.free(unsafe.Pointer(f.f)) }

// QP is its struct ibv_qp *, CQ its struct ibv_cq *.
func (f *Fake) QP() unsafe.Pointer { return unsafe.Pointer(&f.f.ex.qp_base) }

// Builder is its struct ibv_qp_ex *, for the ibv_wr_* calls.
func (f *Fake) Builder() unsafe.Pointer { return unsafe.Pointer(&f.f.ex) }

// MW is a struct ibv_mw * of type 2 with key 0x700, MR a struct ibv_mr * with key
// 0x900. They can be named, and not closed.
func (f *Fake) MW() unsafe.Pointer { return unsafe.Pointer(&f.f.mw) }

// MR is its struct ibv_mr *; see MW.
func (f *Fake) MR() unsafe.Pointer { return unsafe.Pointer(&f.f.mr) }

// AH is its struct ibv_ah *, until FreeAH; Lost is how many datagrams were posted
// after that.
func (f *Fake) AH() unsafe.Pointer { return unsafe.Pointer(&f.f.ah) }

// FreeAH takes the address handle away; see AH.
func (f *Fake) FreeAH() { f.f.ah.handle = 0 }

// Lost counts what was posted with an address handle that was gone; see AH.
func (f *Fake) Lost() int { return int(f.f.lost) }

// Inlined is how many requests were built with their data inline.
func (f *Fake) Inlined() int { return int(f.f.inlined) }

// CQ is its struct ibv_cq *.
func (f *Fake) CQ() unsafe.Pointer { return unsafe.Pointer(&f.f.cq) }

// SRQ is its struct ibv_srq *.
func (f *Fake) SRQ() unsafe.Pointer { return unsafe.Pointer(&f.f.srq) }

// Batches is how many extended batches were started, walked a step and ended.
func (f *Fake) Batches() (starts, nexts, ends int) {
	return int(f.f.starts), int(f.f.nexts), int(f.f.ends)
}

// Calls is how many posts there were, WRs how many requests they queued.
func (f *Fake) Calls() int { return int(f.f.posts) }

// WRs is how many work requests were queued.
func (f *Fake) WRs() int { return int(f.f.wrs) }

// Datagrams makes it a UD queue pair.
func (f *Fake) Datagrams() { f.f.ex.qp_base.qp_type = C.IBV_QPT_UD }

// Refuse makes every post refuse the request at place i of its chain; -1 none, and
// -2 lets a post of sends fail after the last, without saying which.
func (f *Fake) Refuse(i int, errno syscall.Errno) {
	f.f.refuse_at, f.f.errnum = C.int(i), C.int(errno)
}

// Stall makes each post of sends in the classic way take so long.
func (f *Fake) Stall(d time.Duration) { f.f.stall = C.double(d.Seconds()) }

// Completes makes each poll give up to n copies of a completion with an
// immediate; n < 0 makes it fail with errno.
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

// Empty makes the next n polls find nothing.
func (f *Fake) Empty(n int) { f.f.empty = C.long(n) }

// Polls is how many polls there were.
func (f *Fake) Polls() int { return int(f.f.polls) }

// Fails makes the completions that a poll gives failures.
func (f *Fake) Fails(status, vendorErr uint32) {
	f.f.wc.status, f.f.wc.vendor_err = status, C.uint32_t(vendorErr)
}

// Sent is what C saw of a work request at place i (0…3) of the last chain.
type Sent struct {
	ID         uint64
	Opcode     uint32
	Flags      uint32
	NumSGE     int
	Addr       uint64
	Length     uint32
	LKey       uint32
	ImmWire    uint32 // read as big-endian
	RemoteAddr uint64
	RKey       uint32
	CompareAdd uint64
	Swap       uint64
	AtomicRKey uint32

	InvalidateRKey uint32
}

// Bound is what C saw of a bind at place i of the last chain.
type Bound struct {
	MW, MR       unsafe.Pointer
	RKey         uint32
	Addr, Length uint64
	Access       uint32
}

// Bind reads the last post's request i.
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

// Send reads the last post's request i.
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

// RecvID is the id of the last post's receive i, with its first element.
func (f *Fake) RecvID(i int) (id, addr uint64, sges int) {
	return uint64(f.f.last_recv[i].wr_id), uint64(f.f.last_sge[i].addr), int(f.f.last_recv[i].num_sge)
}

// PostInC posts a chain of batch requests n times without leaving C: the floor
// that a post from Go is measured against.
func (f *Fake) PostInC(batch, n int) {
	chain := unsafe.Slice((*C.struct_ibv_send_wr)(C.calloc(C.size_t(batch), C.sizeof_struct_ibv_send_wr)), batch)
	defer C.free(unsafe.Pointer(&chain[0]))
	for i := range batch - 1 {
		chain[i].next = &chain[i+1]
	}
	C.fake_loop_send(f.f, &chain[0], C.long(n))
}

// Cross calls into C and does nothing there.
func (f *Fake) Cross() { C.fake_cross(f.f) }

// PollInC polls n times for up to batch completions without leaving C.
func (f *Fake) PollInC(batch, n int) {
	wcs := (*C.struct_ibv_wc)(C.calloc(C.size_t(batch), C.sizeof_struct_ibv_wc))
	defer C.free(unsafe.Pointer(wcs))
	C.fake_loop_poll(f.f, C.int(batch), wcs, C.long(n))
}
