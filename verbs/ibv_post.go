//go:build linux && cgo

// The C wall's hot path: a batch of work requests is encoded into C memory that
// was allocated with the queue pair, chained there once and for all, and posted
// by one call.

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

// SGE and struct ibv_sge are one layout: a scatter/gather list is copied whole.
var (
	_ [unsafe.Sizeof(SGE{}) - C.sizeof_struct_ibv_sge]byte
	_ [C.sizeof_struct_ibv_sge - unsafe.Sizeof(SGE{})]byte
)

// The arms of the unions that struct ibv_send_wr has for its opcodes.
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

// The last of them is the one whose layout is not plain.
var (
	_ [unsafe.Sizeof(wrBindMW{}) - unsafe.Sizeof(C.struct_ibv_send_wr{}.anon1)]byte
	_ [unsafe.Sizeof(C.struct_ibv_send_wr{}.anon1) - unsafe.Sizeof(wrBindMW{})]byte
)

// sendSlots is C memory for as many send work requests as the queue has, or as are posted
// at once, each with its own scatter/gather slots.
type sendSlots struct {
	qp       *C.struct_ibv_qp
	pd       *ibvPD // qp's
	wrs      []C.struct_ibv_send_wr
	sge      sgeSlots
	ready    bool // RTS was reached, and not left for RESET; not after Close
	datagram bool // UD: each request has an address of its own

	atomicWrite bool // the ibv_wr_* calls have ATOMIC WRITE
	unanswered  bool // UC by the ibv_wr_* calls, of which it has none for what needs an answer

	ex   *C.struct_ibv_qp_ex     // posts by the ibv_wr_* calls, unless nil
	bufs []C.struct_ibv_data_buf // for these, one request's elements

	maxInline uint64 // bytes; checked for the ibv_wr_* calls, which do not say what was wrong

	binds []ibvBind // of the batch, held until it is posted
	peers []*ibvAH  // the same: where its datagrams go

	remapped *remapped // the device's regions that C cannot read inline data from
	split    bool      // the batch must be posted before the next request can be encoded
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

// link chains slot i to the next.
func (s *sendSlots) link(i int) {
	if i+1 < len(s.wrs) {
		s.wrs[i].next = &s.wrs[i+1]
	}
}

// post posts the first n slots and says which one was refused.
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

// What a post goes past the scheduler with at most. Some drivers send the packets within
// the call (rdma_rxe, siw, hfi1), a few µs each, and the garbage collector waits meanwhile.
// With more to do, what cgo costs is small beside it, on any device.
const (
	briefWRs   = 64
	briefBytes = 16 << 10
)

// brief says whether the first n slots, which were filled since it was asked last, are
// little work.
func (s *sendSlots) brief(n int) bool {
	bytes := s.sge.bytes
	s.sge.bytes = 0
	return n <= briefWRs && bytes <= briefBytes
}

// PostSend encodes and posts as many requests at a time as there are slots: mostly one
// call. postAll is its like; one
// generic function for both would cost an indirect call for each request.
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

// refusal is why the send queue takes no requests now, or nil. It is decided before C sees a
// request: libibverbs' rxe provider queues requests even if the kernel refuses the doorbell, and
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

// movedOn asks the device for the state, once after each reset: what Modify asked for does not
// tell it, because another Modify may have come between and errors move queue pairs too.
func (q *ibvQP) movedOn() bool {
	attr, err := q.Query(qpstate.MaskState)
	q.send.ready = err == nil && attr.State >= qpstate.RTS
	return q.send.ready
}

// encode writes a request into slot i; false if it is none that can be posted. C
// would follow what a union holds, whatever the opcode makes of it: so nothing
// is passed on that this function does not know.
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
		return s.setPeer(c, wr)
	case OpSendWithImm:
		setImm(c, wr.Imm)
		return s.setPeer(c, wr)
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
		setInvalidate(c, 0) // rdma_rxe's library refuses what is left over there
		c.num_sge = 0
		return s.setBind(c, wr.Bind)
	default:
		return false
	}
	return true
}

// mayWriteWord reports whether an ATOMIC WRITE can be passed on. C reads the word when it is
// posted, from the element's address as one of this process.
func (s *sendSlots) mayWriteWord(wr *SendWR) bool {
	return s.atomicWrite && len(wr.SGL) == 1 && wr.SGL[0].Length == 8 && wr.RemoteAddr%8 == 0 && !s.remapped.names(wr.SGL)
}

// lacks reports whether a request is one that the queue pair's library has no call for.
func (s *sendSlots) lacks(o Opcode) bool {
	return !s.datagram && (o == OpFlush || o == OpAtomicWrite && !s.atomicWrite)
}

// mayInline is false for inline data that cannot be read, or that a builder would refuse without
// saying which request it was.
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

// setPeer addresses a datagram; false if it has no address, which C would follow
// all the same. A connected queue pair's requests have none.
func (s *sendSlots) setPeer(c *C.struct_ibv_send_wr, wr *SendWR) bool {
	if !s.datagram {
		return true
	}
	if wr.AH == nil {
		return false
	}
	ah, ok := wr.AH.p.(*ibvAH)
	if !ok || ah.pd != s.pd || !s.holdPeer(ah) {
		return false // another provider's or domain's, or closed
	}
	*(*wrUD)(unsafe.Pointer(&c.wr)) = wrUD{uintptr(unsafe.Pointer(ah.ah)), wr.RemoteQPN, wr.RemoteQKey}
	return true
}

// holdPeer holds an address handle until the batch is posted; false if it is closed.
// Datagrams in a row to one peer hold it once.
func (s *sendSlots) holdPeer(ah *ibvAH) bool {
	if n := len(s.peers); n > 0 && s.peers[n-1] == ah {
		return true
	}
	if !ah.hold() {
		return false
	}
	s.peers = append(s.peers, ah) // grows to what the largest batch has
	return true
}

func (s *sendSlots) releasePeers() {
	for _, ah := range s.peers {
		ah.release()
	}
	clear(s.peers)
	s.peers = s.peers[:0]
}

// setBind encodes the bind of a type 2 window, and holds window and region for the
// post; false if it must not reach C. A window's second bind of a batch waits for
// the first to be posted, since C is told the window's present key by its struct.
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
	s.binds = append(s.binds, h) // grows to what the largest batch has
	*(*wrBindMW)(unsafe.Pointer(&c.anon1)) = wrBindMW{uintptr(unsafe.Pointer(h.mw.mw)), b.RKey,
		uintptr(unsafe.Pointer(h.mr.mr)), b.Addr, b.Length, uint32(b.Access)}
	return true
}

// settle ends the holds of a batch of which the first n requests were posted.
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

// recvTarget is where receives are posted: one of the two, or none once that is
// closed.
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

// newRecvSlots is for a queue of n.
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
		return 0, syscall.EINVAL // a provider may have no queue at all to look at
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

// encode writes a request into slot i; false if it cannot be expressed.
func (s *recvSlots) encode(i int, wr *RecvWR) bool {
	if !s.sge.fill(i, wr.SGL) {
		return false
	}
	s.wrs[i].wr_id = C.uint64_t(wr.ID)
	s.wrs[i].num_sge = C.int(len(wr.SGL))
	return true
}

// postResult reads what rv_post_send and rv_post_recv return for n requests.
func postResult(n int, refused int64) (int, error) {
	if refused == 0 {
		return n, nil
	}
	return int(refused >> 32), syscall.Errno(uint32(refused))
}

// sgeSlots is C memory for the scatter/gather lists of n requests, each of the
// same number of elements.
type sgeSlots struct {
	all   []SGE
	per   int
	bytes uint64 // of the elements filled, until somebody sets it to 0
}

func newSGESlots(n, per uint32) sgeSlots {
	return sgeSlots{all: cArray[SGE](max(n, 1) * max(per, 1)), per: int(max(per, 1))}
}

func (s *sgeSlots) free() { C.free(unsafe.Pointer(&s.all[0])) }

// list is where request i's elements are.
func (s *sgeSlots) list(i int) *C.struct_ibv_sge {
	return (*C.struct_ibv_sge)(unsafe.Pointer(&s.all[i*s.per]))
}

// fill copies request i's elements; false if there are too many.
func (s *sgeSlots) fill(i int, sgl []SGE) bool {
	if len(sgl) > s.per {
		return false
	}
	for j, sge := range sgl { // a copy would be a call, and one element is the rule
		s.all[i*s.per+j] = sge
		s.bytes += uint64(sge.Length)
	}
	return true
}

// cArray allocates n zeroed elements (at least one) of C memory. It panics if C
// has none left.
func cArray[T any](n uint32) []T {
	var zero T
	count := max(int(n), 1)
	return unsafe.Slice((*T)(C.calloc(C.size_t(count), C.size_t(unsafe.Sizeof(zero)))), count)
}
