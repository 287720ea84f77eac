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
	struct ibv_qp_ex ex;
	struct ibv_srq srq;
	struct ibv_cq_ex cq;        // begins like a struct ibv_cq
	struct ibv_mw mw;
	struct ibv_mr mr;
	long posts;                 // calls
	long wrs;                   // requests in all calls
	int refuse_at;              // the place in a chain that is refused; -1: none, -2: the doorbell
	int errnum;                 // with this
	struct ibv_send_wr last_send[4];
	struct ibv_sge last_sge[4];
	struct ibv_recv_wr last_recv[4];
	struct ibv_wc wc;           // what each poll gives
	struct ibv_send_wr built;   // the request that the ibv_wr_* calls are at
	struct ibv_sge built_sge;
	int building;               // its place, from 1 on
	int inlined;                // requests whose data came inline
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

// The ibv_wr_* calls: requests are written down one by one, and none counts unless
// wr_complete takes them all.
static struct fake *of(struct ibv_qp_ex *ex)
{
	return (struct fake *)ex->qp_base.qp_context;
}

static void build_flush(struct fake *f)
{
	if (f->building > 0 && f->building <= 4) {
		f->last_send[f->building - 1] = f->built;
		f->last_sge[f->building - 1] = f->built_sge;
	}
}

static struct ibv_send_wr *build_next(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct fake *f = of(ex);

	build_flush(f);
	f->building++;
	f->built.wr_id = ex->wr_id;
	f->built.send_flags = ex->wr_flags;
	f->built.opcode = opcode;
	f->built.num_sge = 0;
	return &f->built;
}

static void build_start(struct ibv_qp_ex *ex)
{
	of(ex)->building = 0;
}

static int build_complete(struct ibv_qp_ex *ex)
{
	struct fake *f = of(ex);

	build_flush(f);
	f->posts++;
	if (f->refuse_at >= 0 && f->refuse_at < f->building)
		return f->errnum;
	f->wrs += f->building;
	return 0;
}

static void build_abort(struct ibv_qp_ex *ex)
{
	of(ex)->building = 0;
}

static void build_send(struct ibv_qp_ex *ex)
{
	build_next(ex, IBV_WR_SEND);
}

static void build_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	build_next(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void build_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	build_next(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void build_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	build_next(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static struct ibv_send_wr *build_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr)
{
	struct ibv_send_wr *wr = build_next(ex, opcode);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = addr;
	return wr;
}

static void build_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	build_remote(ex, IBV_WR_RDMA_WRITE, rkey, addr);
}

static void build_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	build_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr)->imm_data = imm;
}

static void build_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	build_remote(ex, IBV_WR_RDMA_READ, rkey, addr);
}

static void build_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr, uint64_t compare_add,
			 uint64_t swap)
{
	struct ibv_send_wr *wr = build_next(ex, opcode);

	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void build_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	build_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void build_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	build_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}

static void build_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = build_next(ex, IBV_WR_BIND_MW);

	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void build_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	of(ex)->built.wr.ud.ah = ah;
	of(ex)->built.wr.ud.remote_qpn = qpn;
	of(ex)->built.wr.ud.remote_qkey = qkey;
}

static void build_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	of(ex)->built.num_sge = 1;
	of(ex)->built_sge = (struct ibv_sge){ .addr = addr, .length = length, .lkey = lkey };
}

static void build_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	of(ex)->built.num_sge = n;
	if (n)
		of(ex)->built_sge = list[0];
}

static void build_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	of(ex)->inlined++;
	of(ex)->built.num_sge = n;
	if (n)
		of(ex)->built_sge = (struct ibv_sge){ .addr = (uintptr_t)list[0].addr, .length = list[0].length };
}

static void build_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf one = { addr, length };

	build_set_inline_data_list(ex, 1, &one);
}

static void fake_builder(struct ibv_qp_ex *ex)
{
	ex->wr_start = build_start;
	ex->wr_complete = build_complete;
	ex->wr_abort = build_abort;
	ex->wr_send = build_send;
	ex->wr_send_imm = build_send_imm;
	ex->wr_send_inv = build_send_inv;
	ex->wr_local_inv = build_local_inv;
	ex->wr_rdma_write = build_write;
	ex->wr_rdma_write_imm = build_write_imm;
	ex->wr_rdma_read = build_read;
	ex->wr_atomic_cmp_swp = build_cmp_swp;
	ex->wr_atomic_fetch_add = build_fetch_add;
	ex->wr_bind_mw = build_bind_mw;
	ex->wr_set_ud_addr = build_set_ud_addr;
	ex->wr_set_sge = build_set_sge;
	ex->wr_set_sge_list = build_set_sge_list;
	ex->wr_set_inline_data = build_set_inline_data;
	ex->wr_set_inline_data_list = build_set_inline_data_list;
}

static struct fake *fake_new(void)
{
	struct fake *f = calloc(1, sizeof(*f));

	f->refuse_at = -1;
	f->ctx.ops.post_send = fake_post_send;
	f->ctx.ops.post_recv = fake_post_recv;
	f->ctx.ops.poll_cq = fake_poll_cq;
	f->ex.qp_base.context = &f->ctx;
	f->ex.qp_base.qp_context = f;
	f->ex.qp_base.qp_num = 0x11;
	fake_builder(&f->ex);
	f->ctx.ops.post_srq_recv = fake_post_srq_recv;
	f->srq.context = &f->ctx;
	f->srq.srq_context = f;
	f->mw.context = f->mr.context = &f->ctx;
	f->mw.type = IBV_MW_TYPE_2;
	f->mw.rkey = 0x700;
	f->mr.lkey = f->mr.rkey = 0x900;
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
		ibv_post_send(&f->ex.qp_base, wr, &bad);
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
func (f *Fake) QP() unsafe.Pointer { return unsafe.Pointer(&f.f.ex.qp_base) }

// Builder is its struct ibv_qp_ex *, for the ibv_wr_* calls.
func (f *Fake) Builder() unsafe.Pointer { return unsafe.Pointer(&f.f.ex) }

// MW is a struct ibv_mw * of type 2 with key 0x700, MR a struct ibv_mr * with key
// 0x900. They can be named, and not closed.
func (f *Fake) MW() unsafe.Pointer { return unsafe.Pointer(&f.f.mw) }

// MR is its struct ibv_mr *; see MW.
func (f *Fake) MR() unsafe.Pointer { return unsafe.Pointer(&f.f.mr) }

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
