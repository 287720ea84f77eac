//go:build linux && cgo && !nolibibverbs

// The C wall: posting. A batch of work requests is encoded into C memory that was allocated and
// chained with the queue pair, and posted with one call.

package verbs

// #include "ibv_builder.h"
import "C"

import (
	"net"
	"syscall"
	"unsafe"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs/internal/ccall"
)

// SGE and struct ibv_sge have the same layout, because a list of SGEs is copied to C.
var (
	_ [unsafe.Sizeof(SGE{}) - C.sizeof_struct_ibv_sge]byte
	_ [C.sizeof_struct_ibv_sge - unsafe.Sizeof(SGE{})]byte
)

// The members of the unions in struct ibv_send_wr.
type (
	wrRDMA struct {
		remoteAddr uint64
		rkey       uint32
	}
	wrAtomic struct {
		remoteAddr, compareAdd, swap uint64
		rkey                         uint32
	}
	wrUD struct {
		ah   uintptr // struct ibv_ah *, C memory
		qpn  uint32
		qkey uint32
	}
	wrBindMW struct {
		mw           uintptr // struct ibv_mw *
		rkey         uint32
		mr           uintptr // struct ibv_mr *
		addr, length uint64
		access       uint32
	}
)

// The compiler checks the size of wrBindMW, whose layout is the least obvious.
var (
	_ [unsafe.Sizeof(wrBindMW{}) - unsafe.Sizeof(C.struct_ibv_send_wr{}.anon1)]byte
	_ [unsafe.Sizeof(C.struct_ibv_send_wr{}.anon1) - unsafe.Sizeof(wrBindMW{})]byte
)

// sendSlots is C memory for send work requests: as many as the send queue has, or as one batch has
// at most. Each slot has its own SGEs.
type sendSlots struct {
	qp       *C.struct_ibv_qp
	pd       *ibvPD // qp's domain
	wrs      []C.struct_ibv_send_wr
	sge      sgeSlots
	ready    bool // RTS was seen since the last RESET; false after Close
	datagram bool // UD: each request has its own address

	atomicWrite bool // ibv_wr_atomic_write exists
	unanswered  bool // UC with the ibv_wr_* calls, which lack the opcodes that need an answer

	ex   *C.struct_ibv_qp_ex     // not nil: post with the ibv_wr_* calls
	bufs []C.struct_ibv_data_buf // for the ibv_wr_* calls: the elements of one request

	maxInline uint64 // bytes; checked here for the ibv_wr_* calls, which do not report the request that is too long

	binds []ibvBind // objects of the batch's binds, held until the batch is posted
	peers []*ibvAH  // address handles of the batch's datagrams, held until the batch is posted

	remapped *remapped // the device's regions from which C cannot read inline data
	split    bool      // post the batch before encoding the next request
}

func newSendSlots(pd *ibvPD, qp *C.struct_ibv_qp, ex *C.struct_ibv_qp_ex, cap QPCap) sendSlots {
	n := min(cap.MaxSendWR, manyAtOnce)
	s := sendSlots{qp: qp, pd: pd, wrs: cArray[C.struct_ibv_send_wr](n), sge: newSGESlots(n, cap.MaxSendSGE), remapped: new(remapped),
		datagram: qp.qp_type == C.IBV_QPT_UD, unanswered: qp.qp_type == C.IBV_QPT_UC && ex != nil, ex: ex, bufs: cArray[C.struct_ibv_data_buf](cap.MaxSendSGE), maxInline: uint64(cap.MaxInlineData)}
	for i := range s.wrs {
		s.wrs[i].sg_list = s.sge.list(i)
		s.link(i)
	}
	return s
}

func (s *sendSlots) free() {
	C.free(unsafe.Pointer(&s.wrs[0]))
	C.free(unsafe.Pointer(&s.bufs[0]))
	s.sge.free()
	*s = sendSlots{}
}

// link points slot i to the next slot.
func (s *sendSlots) link(i int) {
	if i+1 < len(s.wrs) {
		s.wrs[i].next = &s.wrs[i+1]
	}
}

// post posts the first n slots. It returns how many were posted, and the error of a refusal.
func (s *sendSlots) post(n int) (int, error) {
	brief := s.brief(n)
	if n == 0 {
		return 0, nil
	}
	s.wrs[n-1].next = nil
	var refused int64
	switch {
	case s.ex != nil && brief:
		refused = ccall.Call(hotBuildSend, address(s.ex), address(&s.wrs[0]), address(&s.bufs[0]), boolArg(s.datagram), nil)
	case s.ex != nil:
		refused = ccall.Through(hotBuildSend, address(s.ex), address(&s.wrs[0]), address(&s.bufs[0]), boolArg(s.datagram), nil)
	case brief:
		refused = ccall.Call(hotPostSend, address(s.qp), address(&s.wrs[0]), 0, 0, nil)
	default:
		refused = ccall.Through(hotPostSend, address(s.qp), address(&s.wrs[0]), 0, 0, nil)
	}
	s.link(n - 1)
	return postResult(n, refused)
}

// Limits of a post that goes past the scheduler, because the garbage collector waits for it. Some
// drivers (rdma_rxe, siw, hfi1) send the packets within the call, a few µs for each. For larger
// posts the cost of cgo is small in comparison.
const (
	briefWRs   = 64
	briefBytes = 16 << 10
)

// brief reports whether the first n slots are within these limits. They must have been filled since
// the last call of brief.
func (s *sendSlots) brief(n int) bool {
	bytes := s.sge.bytes
	s.sge.bytes = 0
	return n <= briefWRs && bytes <= briefBytes
}

// PostSend encodes and posts requests in batches. A batch has as many requests as there are slots,
// so usually there is one batch. postAll is the same loop for receives; one generic function for
// both would cost an indirect call per request.
func (q *ibvQP) PostSend(wrs []SendWR) (done int, err error) {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	s := &q.send
	for err == nil && done < len(wrs) {
		if !s.ready {
			if err = q.refusal(); err != nil {
				break
			}
		}
		batch := wrs[done:min(done+len(s.wrs), len(wrs))]
		fit := 0
		for fit < len(batch) && s.encode(fit, &batch[fit]) {
			fit++
		}
		var n int
		n, err = s.post(fit)
		if len(s.binds) > 0 {
			s.settle(n)
		}
		if len(s.peers) > 0 {
			s.releasePeers()
		}
		if done += n; err == nil && fit < len(batch) && !s.split {
			err = syscall.EINVAL
			if s.lacks(batch[fit].Opcode) {
				err = syscall.EOPNOTSUPP
			}
		}
		s.split = false
	}
	return done, err
}

// refusal returns why the send queue accepts no requests now, or nil. It must be known before C gets
// a request: libibverbs' rxe provider queues requests even if the kernel refuses the doorbell, and
// the next doorbell sends them. The caller holds sendMu.
func (q *ibvQP) refusal() error {
	switch {
	case q.send.qp == nil:
		return net.ErrClosed
	case !q.send.ready && !q.movedOn():
		return syscall.EINVAL
	}
	return nil
}

// movedOn asks the device for the state, once after each RESET. The state that Modify requested is
// not enough, because another Modify or an error may have changed the state since.
func (q *ibvQP) movedOn() bool {
	attr, err := q.Query(qpstate.MaskState)
	q.send.ready = err == nil && attr.State >= qpstate.RTS
	return q.send.ready
}

// encode writes a request into slot i. It returns false for a request that cannot be posted. C would
// follow the pointers in a union for any opcode, so encode refuses opcodes that it does not know.
func (s *sendSlots) encode(i int, wr *SendWR) bool {
	c := &s.wrs[i]
	if s.datagram && wr.Opcode != OpSend && wr.Opcode != OpSendWithImm ||
		s.unanswered && needsAnswer(wr.Opcode) || !s.sge.fill(i, wr.SGL) {
		return false
	}
	if wr.Flags&SendInline != 0 && !s.mayInline(wr) {
		return false
	}
	c.wr_id = C.uint64_t(wr.ID)
	c.num_sge = C.int(len(wr.SGL))
	c.opcode = wrOpcodes[wr.Opcode%opcodeRoom]
	c.send_flags = C.uint(wr.Flags)
	switch wr.Opcode {
	case OpSend:
		return !s.datagram || s.setPeer(c, wr)
	case OpSendWithImm:
		setImm(c, wr.Imm)
		return !s.datagram || s.setPeer(c, wr)
	case OpRDMAWrite, OpRDMARead:
		setRemote(c, wr)
	case OpRDMAWriteWithImm:
		setImm(c, wr.Imm)
		setRemote(c, wr)
	case OpAtomicCmpAndSwp, OpAtomicFetchAndAdd:
		*(*wrAtomic)(unsafe.Pointer(&c.wr)) = wrAtomic{wr.RemoteAddr, wr.CompareAdd, wr.Swap, wr.RKey}
	case OpSendWithInvalidate:
		setInvalidate(c, wr.InvalidateRKey)
	case OpLocalInv:
		setInvalidate(c, wr.InvalidateRKey)
		c.num_sge = 0
	case OpAtomicWrite:
		setRemote(c, wr)
		return s.mayWriteWord(wr)
	case OpBindMW:
		setInvalidate(c, 0) // rdma_rxe's library refuses a value left from an earlier request
		c.num_sge = 0
		return s.setBind(c, wr.Bind)
	default:
		return false
	}
	return true
}

// mayWriteWord reports whether an ATOMIC WRITE can be passed to C. C reads the word during the post,
// and uses the element's address as a pointer.
func (s *sendSlots) mayWriteWord(wr *SendWR) bool {
	return s.atomicWrite && len(wr.SGL) == 1 && wr.SGL[0].Length == 8 && wr.RemoteAddr%8 == 0 && !s.remapped.names(wr.SGL)
}

// lacks reports whether the queue pair's library has no call for the opcode.
func (s *sendSlots) lacks(o Opcode) bool {
	return !s.datagram && (o == OpFlush || o == OpAtomicWrite && !s.atomicWrite)
}

// mayInline reports whether C can read the request's inline data. It also checks the length for the
// ibv_wr_* calls, which would not report which request is too long.
func (s *sendSlots) mayInline(wr *SendWR) bool {
	if wr.Opcode == OpLocalInv || wr.Opcode == OpBindMW {
		return true // no data
	}
	return !s.remapped.names(wr.SGL) && (s.ex == nil || sglBytes(wr.SGL) <= s.maxInline)
}

func setImm(c *C.struct_ibv_send_wr, imm uint32) {
	*(*uint32)(unsafe.Pointer(&c.anon0)) = hostOrder32(imm)
}

func setInvalidate(c *C.struct_ibv_send_wr, rkey uint32) {
	*(*uint32)(unsafe.Pointer(&c.anon0)) = rkey
}

func setRemote(c *C.struct_ibv_send_wr, wr *SendWR) {
	*(*wrRDMA)(unsafe.Pointer(&c.wr)) = wrRDMA{wr.RemoteAddr, wr.RKey}
}

// setPeer sets a datagram's address. It returns false if there is none, because C would follow the
// nil pointer. Requests of connected queue pairs have no address.
func (s *sendSlots) setPeer(c *C.struct_ibv_send_wr, wr *SendWR) bool {
	if wr.AH == nil {
		return false
	}
	ah, ok := wr.AH.p.(*ibvAH)
	if !ok || ah.pd != s.pd || !s.holdPeer(ah) {
		return false // of another provider or domain, or closed
	}
	*(*wrUD)(unsafe.Pointer(&c.wr)) = wrUD{uintptr(unsafe.Pointer(ah.ah)), wr.RemoteQPN, wr.RemoteQKey}
	return true
}

// holdPeer holds an address handle until the batch is posted. It returns false if the handle is
// closed. Consecutive datagrams to one peer hold the handle once.
func (s *sendSlots) holdPeer(ah *ibvAH) bool {
	if n := len(s.peers); n > 0 && s.peers[n-1] == ah {
		return true
	}
	if !ah.hold() {
		return false
	}
	s.peers = append(s.peers, ah) // its capacity stays, so later batches do not allocate
	return true
}

func (s *sendSlots) releasePeers() {
	for _, ah := range s.peers {
		ah.release()
	}
	clear(s.peers)
	s.peers = s.peers[:0]
}

// setBind encodes the bind of a type 2 window and holds its window and region until the batch is
// posted. It returns false if the bind must not reach C. C reads the window's present key from its
// struct, so the second bind of a window in a batch waits until the first is posted.
func (s *sendSlots) setBind(c *C.struct_ibv_send_wr, b *MWBind) bool {
	for i := range s.binds {
		if b != nil && b.MW != nil && b.MW.p == ProviderMW(s.binds[i].mw) {
			s.split = true
			return false
		}
	}
	if b.Check() != nil {
		return false
	}
	h, ok := s.pd.holdBind(b)
	if !ok {
		return false
	}
	s.binds = append(s.binds, h) // its capacity stays, so later batches do not allocate
	*(*wrBindMW)(unsafe.Pointer(&c.anon1)) = wrBindMW{uintptr(unsafe.Pointer(h.mw.mw)), b.RKey,
		uintptr(unsafe.Pointer(h.mr.mr)), b.Addr, b.Length, uint32(b.Access)}
	return true
}

// settle releases the objects of a batch's binds. The first n requests were posted.
func (s *sendSlots) settle(n int) {
	for i, at := 0, 0; i < len(s.binds); at++ {
		if s.wrs[at].opcode != C.IBV_WR_BIND_MW {
			continue
		}
		h := &s.binds[i]
		if at < n {
			h.mw.bound(h.rkey)
		}
		h.release()
		*h = ibvBind{}
		i++
	}
	s.binds = s.binds[:0]
}

// recvTarget is the queue for receives: one of the two is set, and none after Close.
type recvTarget struct {
	qp  *C.struct_ibv_qp
	srq *C.struct_ibv_srq
}

// recvSlots is sendSlots for the receives of a queue pair or of an SRQ.
type recvSlots struct {
	to  recvTarget
	wrs []C.struct_ibv_recv_wr
	sge sgeSlots
}

// newRecvSlots makes slots for a queue of n receives.
func newRecvSlots(to recvTarget, n, sges uint32) recvSlots {
	n = min(n, manyAtOnce)
	s := recvSlots{to: to, wrs: cArray[C.struct_ibv_recv_wr](n), sge: newSGESlots(n, sges)}
	for i := range s.wrs {
		s.wrs[i].sg_list = s.sge.list(i)
		s.link(i)
	}
	return s
}

func (s *recvSlots) free() {
	C.free(unsafe.Pointer(&s.wrs[0]))
	s.sge.free()
	*s = recvSlots{}
}

func (s *recvSlots) link(i int) {
	if i+1 < len(s.wrs) {
		s.wrs[i].next = &s.wrs[i+1]
	}
}

func (s *recvSlots) post(n int) (int, error) {
	if n == 0 {
		return 0, nil
	}
	s.wrs[n-1].next = nil
	var refused int64
	if s.to.srq != nil {
		refused = ccall.Call(hotPostSRQRecv, address(s.to.srq), address(&s.wrs[0]), 0, 0, nil)
	} else {
		refused = ccall.Call(hotPostRecv, address(s.to.qp), address(&s.wrs[0]), 0, 0, nil)
	}
	s.link(n - 1)
	return postResult(n, refused)
}

func (q *ibvQP) PostRecv(wrs []RecvWR) (done int, err error) {
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	if q.onSRQ && q.recv.to.qp != nil {
		return 0, syscall.EINVAL // a provider may crash, because it has no receive queue
	}
	return q.recv.postAll(wrs)
}

// postAll is PostSend's loop for receives.
func (s *recvSlots) postAll(wrs []RecvWR) (done int, err error) {
	for err == nil && done < len(wrs) {
		if s.to == (recvTarget{}) {
			err = net.ErrClosed
			break
		}
		batch := wrs[done:min(done+len(s.wrs), len(wrs))]
		fit := 0
		for fit < len(batch) && s.encode(fit, &batch[fit]) {
			fit++
		}
		var n int
		n, err = s.post(fit)
		if done += n; err == nil && fit < len(batch) {
			err = syscall.EINVAL
		}
	}
	return done, err
}

// encode writes a request into slot i. It returns false if there are too many elements.
func (s *recvSlots) encode(i int, wr *RecvWR) bool {
	if !s.sge.fill(i, wr.SGL) {
		return false
	}
	s.wrs[i].wr_id = C.uint64_t(wr.ID)
	s.wrs[i].num_sge = C.int(len(wr.SGL))
	return true
}

// postResult decodes what C returns for n requests: 0, or the number posted and an errno.
func postResult(n int, refused int64) (int, error) {
	if refused == 0 {
		return n, nil
	}
	return int(refused >> 32), syscall.Errno(uint32(refused))
}

// sgeSlots is C memory for the scatter/gather lists of n requests. All lists have the same number of
// elements.
type sgeSlots struct {
	all   []SGE
	per   int
	bytes uint64 // total length of the filled elements; brief resets it
}

func newSGESlots(n, per uint32) sgeSlots {
	return sgeSlots{all: cArray[SGE](max(n, 1) * max(per, 1)), per: int(max(per, 1))}
}

func (s *sgeSlots) free() { C.free(unsafe.Pointer(&s.all[0])) }

// list returns the elements of request i.
func (s *sgeSlots) list(i int) *C.struct_ibv_sge {
	return (*C.struct_ibv_sge)(unsafe.Pointer(&s.all[i*s.per]))
}

// fill copies request i's elements. It returns false if there are too many.
func (s *sgeSlots) fill(i int, sgl []SGE) bool {
	if len(sgl) > s.per {
		return false
	}
	for j, sge := range sgl { // usually there is one element, and copy would be a call
		s.all[i*s.per+j] = sge
		s.bytes += uint64(sge.Length)
	}
	return true
}

// cArray allocates n zeroed elements of C memory, at least one. It panics if C has no memory.
func cArray[T any](n uint32) []T {
	var zero T
	count := max(int(n), 1)
	return unsafe.Slice((*T)(C.calloc(C.size_t(count), C.size_t(unsafe.Sizeof(zero)))), count)
}
