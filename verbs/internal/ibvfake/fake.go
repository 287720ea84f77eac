//go:build linux && cgo

// Package ibvfake makes struct ibv_qp, ibv_srq and ibv_cq objects whose table of
// operations is a few lines of C, so that the cost and the encoding of a post and
// a poll can be tested without a device. Only tests import it.
package ibvfake

/*
#cgo noescape fake_cross
#cgo nocallback fake_cross
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

// What the last post brought, for a test to look at; and what the next may do.
struct fake {
	struct ibv_context ctx;
	struct ibv_qp qp;
	struct ibv_srq srq;
	struct ibv_cq_ex cq;        // begins like a struct ibv_cq
	long posts;                 // calls
	long wrs;                   // requests in all calls
	int refuse_at;              // the place in a chain that is refused; -1: none, -2: the doorbell
	int errnum;                 // with this
	struct ibv_send_wr last_send[4];
	struct ibv_sge last_sge[4];
	struct ibv_recv_wr last_recv[4];
	struct ibv_wc wc;           // what each poll gives
	int polled;                 // completions a poll gives at most
	int left;                   // of an extended batch
	long starts, nexts, ends;   // of extended batches
};

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake *f = (struct fake *)qp->qp_context;
	int i = 0;

	f->posts++;
	for (; wr; wr = wr->next, i++) {
		if (i == f->refuse_at) {
			*bad = wr;
			return f->errnum;
		}
		if (i < 4) {
			f->last_send[i] = *wr;
			if (wr->num_sge)
				f->last_sge[i] = wr->sg_list[0];
		}
		f->wrs++;
	}
	if (f->refuse_at == -2) { // as libibverbs' rxe provider does
		*bad = NULL;
		return f->errnum;
	}
	return 0;
}

static int fake_recv(struct fake *f, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int i = 0;

	f->posts++;
	for (; wr; wr = wr->next, i++) {
		if (i == f->refuse_at) {
			*bad = wr;
			return f->errnum;
		}
		if (i < 4) {
			f->last_recv[i] = *wr;
			if (wr->num_sge)
				f->last_sge[i] = wr->sg_list[0];
		}
		f->wrs++;
	}
	return 0;
}

static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return fake_recv((struct fake *)qp->qp_context, wr, bad);
}

static int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return fake_recv((struct fake *)srq->srq_context, wr, bad);
}

static int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct fake *f = (struct fake *)cq->cq_context;
	int i;

	if (f->polled < 0) {
		errno = f->errnum;
		return -1;
	}
	if (n > f->polled)
		n = f->polled;
	for (i = 0; i < n; i++)
		wc[i] = f->wc;
	return n;
}

static int fake_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	struct fake *f = (struct fake *)cq->cq_context;

	f->starts++;
	if (f->polled < 0)
		return f->errnum;
	if (f->left <= 0) {
		f->left = f->polled; // the next call finds as many again
		return ENOENT;
	}
	f->left--;
	cq->wr_id = f->wc.wr_id;
	cq->status = f->wc.status;
	return 0;
}

static int fake_next_poll(struct ibv_cq_ex *cq)
{
	struct fake *f = (struct fake *)cq->cq_context;

	f->nexts++;
	if (f->left <= 0)
		return ENOENT;
	f->left--;
	return 0;
}

static void fake_end_poll(struct ibv_cq_ex *cq)
{
	((struct fake *)cq->cq_context)->ends++;
}

static enum ibv_wc_opcode fake_read_opcode(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.opcode; }
static uint32_t fake_read_vendor_err(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.vendor_err; }
static unsigned int fake_read_wc_flags(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.wc_flags; }
static uint32_t fake_read_byte_len(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.byte_len; }
static __be32 fake_read_imm_data(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.imm_data; }
static uint32_t fake_read_qp_num(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.qp_num; }
static uint32_t fake_read_src_qp(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.src_qp; }
static uint32_t fake_read_slid(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.slid; }
static uint8_t fake_read_sl(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.sl; }
static uint8_t fake_read_dlid_path_bits(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.dlid_path_bits; }
static uint64_t fake_read_completion_ts(struct ibv_cq_ex *cq) { return 0x1122334455667788; }
static uint64_t fake_read_wallclock(struct ibv_cq_ex *cq) { return 1700000000000000001; }
static uint16_t fake_read_cvlan(struct ibv_cq_ex *cq) { return 0xabc; }
static uint32_t fake_read_flow_tag(struct ibv_cq_ex *cq) { return 0xdef012; }

static struct fake *fake_new(void)
{
	struct fake *f = calloc(1, sizeof(*f));

	f->refuse_at = -1;
	f->ctx.ops.post_send = fake_post_send;
	f->ctx.ops.post_recv = fake_post_recv;
	f->ctx.ops.poll_cq = fake_poll_cq;
	f->qp.context = &f->ctx;
	f->qp.qp_context = f;
	f->qp.qp_num = 0x11;
	f->ctx.ops.post_srq_recv = fake_post_srq_recv;
	f->srq.context = &f->ctx;
	f->srq.srq_context = f;
	f->cq.context = &f->ctx;
	f->cq.cq_context = f;
	f->cq.start_poll = fake_start_poll;
	f->cq.next_poll = fake_next_poll;
	f->cq.end_poll = fake_end_poll;
	f->cq.read_opcode = fake_read_opcode;
	f->cq.read_vendor_err = fake_read_vendor_err;
	f->cq.read_wc_flags = fake_read_wc_flags;
	f->cq.read_byte_len = fake_read_byte_len;
	f->cq.read_imm_data = fake_read_imm_data;
	f->cq.read_qp_num = fake_read_qp_num;
	f->cq.read_src_qp = fake_read_src_qp;
	f->cq.read_slid = fake_read_slid;
	f->cq.read_sl = fake_read_sl;
	f->cq.read_dlid_path_bits = fake_read_dlid_path_bits;
	f->cq.read_completion_ts = fake_read_completion_ts;
	f->cq.read_completion_wallclock_ns = fake_read_wallclock;
	f->cq.read_cvlan = fake_read_cvlan;
	f->cq.read_flow_tag = fake_read_flow_tag;
	return f;
}

// The loops that a Go post is measured against: the same work with no crossing.
static void fake_loop_send(struct fake *f, struct ibv_send_wr *wr, long n)
{
	struct ibv_send_wr *bad;

	while (n-- > 0)
		ibv_post_send(&f->qp, wr, &bad);
}

// fake_cross does nothing: what a call from Go into C costs by itself.
static void fake_cross(struct fake *f)
{
	(void)f;
}

static void fake_loop_poll(struct fake *f, int batch, struct ibv_wc *wc, long n)
{
	while (n-- > 0)
		ibv_poll_cq((struct ibv_cq *)&f->cq, batch, wc);
}
*/
import "C"

import (
	"encoding/binary"
	"syscall"
	"unsafe"
)

// Fake is one queue pair, one SRQ and one completion queue, which is extended too.
type Fake struct{ f *C.struct_fake }

// New makes a fake; Free ends it.
func New() *Fake { return &Fake{C.fake_new()} }

// Free gives its memory back.
func (f *Fake) Free() { C.free(unsafe.Pointer(f.f)) }

// QP is its struct ibv_qp *, CQ its struct ibv_cq *.
func (f *Fake) QP() unsafe.Pointer { return unsafe.Pointer(&f.f.qp) }

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
func (f *Fake) Datagrams() { f.f.qp.qp_type = C.IBV_QPT_UD }

// Refuse makes every post refuse the request at place i of its chain; -1 none, and
// -2 lets a post of sends fail after the last, without saying which.
func (f *Fake) Refuse(i int, errno syscall.Errno) {
	f.f.refuse_at, f.f.errnum = C.int(i), C.int(errno)
}

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
