// Queue pairs: a send queue, a receive queue, a state.

package verbs

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/internal/ctxwatch"
	"github.com/rawverbs/rawverbs/qpstate"
)

// QPInit says what queue pair to make (struct ibv_qp_init_attr). The zero value does
// not work: Type and the CQs must be there. The CQs may be one and the same.
type QPInit struct {
	Type           QPType   // RC, UC or UD; 0 is none of them
	SendCQ, RecvCQ *CQ      // where sends and receives complete; neither is nil
	SRQ            *SRQ     // nil: a receive queue of its own; else Cap's receive sizes do not count
	Cap            QPCap    // what is granted may be more: see QP.Cap. Soft devices grant at least 1 of all but inline data
	SigAll         bool     // every send completes; false: those with SendSignaled, and those that fail
	PostPath       PostPath // how sends are posted; the zero value is PostAuto
}

// QP is a queue pair (struct ibv_qp). [PD.CreateQP] makes it, in RESET; three calls of
// Modify, which [qpstate.Machine] makes, take it to RTS, and errors to ERR. It is valid
// until Close.
//
// Its methods may be called by several goroutines at once; posts to one of its queues
// are then served in turn, whole slices at a time. What the device is not asked for
// (QPN, Type, Cap, State, SendCQ, RecvCQ, SRQ, PostPath) is also valid after Close.
type QP struct {
	handle
	p    ProviderQP
	dev  *Device
	init QPInit

	modifying chan struct{} // holds one while a Modify is in flight
	stateMu   sync.Mutex    // guards the rest
	state     QPState       // what the last Modify left; an asynchronous error may have moved it
	port      uint8         // what RESET→INIT chose
}

// CreateQP makes a queue pair, in RESET. Domain, CQs and SRQ cannot be closed before it.
//
// EINVAL for a CQ that is missing, objects of another device, or sizes beyond the
// device's (DeviceAttr.MaxQPWR, MaxSGE); ENOMEM if there is no memory, or none may be
// locked; errors.ErrUnsupported for a type or a PostPath that the device does not have.
//
// Implements: struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr),
// struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *qp_init_attr_ex),
// struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
func (pd *PD) CreateQP(init QPInit) (*QP, error) {
	detail := fmt.Sprintf("%s, %+v", init.Type.Name(), init.Cap)
	if init.SendCQ == nil || init.RecvCQ == nil {
		e := fail("ibv_create_qp", pd.device, detail, syscall.EINVAL).(*Error)
		e.Hint = "both SendCQ and RecvCQ; they may be the same"
		return nil, e
	}
	if init.SendCQ.dev != pd.dev || init.RecvCQ.dev != pd.dev {
		return nil, otherDevice("ibv_create_qp", pd.device, "the CQs are of "+init.SendCQ.device+" and "+init.RecvCQ.device)
	}
	parents := []*handle{&pd.handle, &init.SendCQ.handle}
	if init.RecvCQ != init.SendCQ {
		parents = append(parents, &init.RecvCQ.handle)
	}
	if init.PostPath > PostWRAPI {
		e := fail("ibv_create_qp", pd.device, "PostPath "+init.PostPath.String(), syscall.EINVAL).(*Error)
		e.Hint = "PostAuto, PostClassic or PostWRAPI"
		return nil, e
	}
	var srq ProviderSRQ
	if init.SRQ != nil {
		if init.SRQ.dev != pd.dev {
			return nil, otherDevice("ibv_create_qp", pd.device, "the SRQ is of "+init.SRQ.device)
		}
		parents = append(parents, &init.SRQ.handle)
		srq = init.SRQ.p
	}
	qp := &QP{init: init, dev: pd.dev, modifying: make(chan struct{}, 1)}
	p, err := makeObject(&qp.handle, "QP", "ibv_create_qp", detail, func() (ProviderQP, error) {
		return pd.p.CreateQP(ProviderQPInit{
			Type: init.Type, SendCQ: init.SendCQ.p, RecvCQ: init.RecvCQ.p, SRQ: srq, Cap: init.Cap, SigAll: init.SigAll, PostPath: init.PostPath})
	}, parents...)
	if err != nil {
		return nil, err
	}
	qp.p = p
	return qp, nil
}

// QPN is the queue pair's number, 24 bits: what the peer sends to.
func (qp *QP) QPN() uint32 { return qp.p.QPN() }

// Type is the transport type.
func (qp *QP) Type() QPType { return qp.init.Type }

// Cap is the sizes that were granted: at least those asked for, and on soft devices 0
// receives with an SRQ.
func (qp *QP) Cap() QPCap { return qp.p.Cap() }

// SendCQ is where sends complete.
func (qp *QP) SendCQ() *CQ { return qp.init.SendCQ }

// RecvCQ is where receives complete.
func (qp *QP) RecvCQ() *CQ { return qp.init.RecvCQ }

// SRQ is where its receives come from, nil if it has a receive queue of its own.
func (qp *QP) SRQ() *SRQ { return qp.init.SRQ }

// Modify applies the attributes that mask names. It refuses a mask that the table forbids
// because STATE is missing for the move to attr.State. It passes every other call to the
// device. If the device returns EINVAL or EOPNOTSUPP, the error names the bit or the value that
// the table or the port's attributes forbid. [qpstate.Machine] makes the masks.
//
// The error is an *[Error]. EINVAL is for a mask or a state that the table forbids (some
// kernels: EOPNOTSUPP), with the *[qpstate.TransitionError] beneath, or for a value;
// ENODATA for an empty slot of the GID table; ETIMEDOUT, ENETUNREACH or EHOSTUNREACH for
// a peer that is not found; EPERM for a QKEY from 0x80000000 on, which the kernel keeps
// for CAP_NET_RAW; net.ErrClosed after Close.
//
// A move to RTR may take seconds on RoCE, while the kernel looks for the peer: see
// [QP.ModifyContext]. Several Modify of one queue pair are served in turn; every other
// method may run beside them.
//
// Implements: int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (qp *QP) Modify(attr *QPAttr, mask QPAttrMask) error {
	return qp.ModifyContext(context.Background(), attr, mask)
}

// ModifyContext is [QP.Modify], and returns when ctx ends. The error is then ctx.Err() and
// context.Cause(ctx) to errors.Is. The kernel goes on with the call: the move may still
// happen, and Close is EBUSY until the kernel is done.
func (qp *QP) ModifyContext(ctx context.Context, attr *QPAttr, mask QPAttrMask) error {
	const op = "ibv_modify_qp"
	if ctx.Err() != nil {
		return fail(op, qp.device, qp.name()+", "+mask.Name(), ctxwatch.Err(ctx))
	}
	if err := qp.begin(op); err != nil {
		return qp.fail(op, "", err)
	}
	select {
	case qp.modifying <- struct{}{}:
	case <-ctx.Done():
		qp.end(op)
		return fail(op, qp.device, qp.name()+", "+mask.Name(), ctxwatch.Err(ctx))
	}
	own := *attr // the caller may reuse attr when ctx has ended
	_, err := within(ctx, func() (none struct{}, err error) {
		defer qp.end(op)
		return none, qp.modify(&own, mask)
	}, func(struct{}) {})
	if _, ok := err.(*Error); err == nil || ok {
		return err
	}
	return qp.fail(op, qp.name()+", "+mask.Name(), err)
}

// modify is a call that has begun, and whose turn it is.
func (qp *QP) modify(attr *QPAttr, mask QPAttrMask) error {
	defer func() { <-qp.modifying }()
	began := time.Now()
	var err error = syscall.EINVAL
	if !qp.forgotState(attr, mask) {
		err = qp.p.Modify(attr, mask)
	}
	if err != nil {
		err = qp.explainModify(attr, mask, err)
	}
	qp.logCall("ibv_modify_qp", qp.name()+", "+mask.Name(), began, err)
	if err != nil {
		return err
	}
	qp.stateMu.Lock()
	defer qp.stateMu.Unlock()
	if mask&qpstate.MaskState != 0 {
		qp.state = attr.State
	}
	if mask&qpstate.MaskPort != 0 {
		qp.port = attr.PortNum
	}
	return nil
}

// State is the state that the last Modify left, without asking the device. Errors move queue
// pairs too, and then [QP.Query] knows better. It never waits, not even for a Modify in flight,
// and is valid after Close.
func (qp *QP) State() QPState {
	qp.stateMu.Lock()
	defer qp.stateMu.Unlock()
	return qp.state
}

// Machine returns a [qpstate.Machine] in the state that the last Modify left. It makes the
// moves by name (ToInit, ToRTR, ToRTS) and the masks for them. observe, if not nil, sees every
// move. Unlike the queue pair, a Machine is used by one goroutine at a time.
func (qp *QP) Machine(observe func(qpstate.Step)) *qpstate.Machine {
	m := qpstate.NewMachine(qp.Type(), qp, observe)
	m.Observed(qp.State())
	return m
}

// Query asks the device for the attributes that mask names; it may fill in more.
// net.ErrClosed after Close.
//
// Implements: int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr)
func (qp *QP) Query(mask QPAttrMask) (QPAttr, error) {
	var attr QPAttr
	err := qp.call("ibv_query_qp", fmt.Sprintf("QP %#06x", qp.QPN()), func() (err error) {
		attr, err = qp.p.Query(mask)
		return err
	})
	return attr, err
}

// PostSend queues send work requests in order. If one is refused the error is a
// *[PostError] with its index: those before it are queued, the rest are not. The
// slice may be reused at once; the memory that the SGEs name belongs to the
// device until the completion. It allocates nothing itself, but a slice literal in the
// call does: reuse slices where speed counts. On libibverbs up to 256 requests are one
// call into C.
//
// ENOMEM says that the queue is full: a place is free again, at the latest, when a
// completion of its request, or of a later one, was polled. EINVAL is for a queue pair
// below RTS, an opcode that its type does not have, more elements than Cap, more inline
// data (some drivers: ENOMEM), inline data of a region under other addresses
// ([SendInline]), an AH or a Bind that is missing or closed, an AH of another domain, a Bind
// of another device's objects, an atomic or ATOMIC WRITE whose address is not a multiple of 8,
// an ATOMIC WRITE of other than one element of 8 bytes, a FLUSH without a type; net.ErrClosed
// after Close. errors.ErrUnsupported is for OpAtomicWrite and OpFlush where they are missing:
// on libibverbs OpAtomicWrite needs [PostWRAPI] and a device with [CapAtomicWrite], and
// there is no OpFlush. In ERR and SQE requests are taken,
// and flushed at once.
//
// Implements: int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr),
// and with [PostWRAPI] void ibv_wr_start(struct ibv_qp_ex *qp),
// int ibv_wr_complete(struct ibv_qp_ex *qp), void ibv_wr_abort(struct ibv_qp_ex *qp),
// void ibv_wr_send(struct ibv_qp_ex *qp), void ibv_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data),
// void ibv_wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey),
// void ibv_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr),
// void ibv_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm_data),
// void ibv_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr),
// void ibv_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare, uint64_t swap),
// void ibv_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t add),
// void ibv_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, const void *atomic_wr),
// void ibv_wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey),
// void ibv_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *bind_info),
// void ibv_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey),
// void ibv_wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length),
// void ibv_wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sg_list),
// void ibv_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length),
// void ibv_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf, const struct ibv_data_buf *buf_list)
func (qp *QP) PostSend(wrs []SendWR) error {
	n, err := qp.p.PostSend(wrs)
	if err != nil {
		return qp.sendRefused(wrs, n, err)
	}
	return nil
}

// PostRecv queues receive work requests in order, with the rules of [QP.PostSend].
// It is legal from INIT on, and EINVAL for a queue pair with an SRQ: post to that. ENOMEM
// says that the queue is full, EINVAL also that a request has too many elements, and
// net.ErrClosed that the queue pair is closed.
//
// Implements: int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
func (qp *QP) PostRecv(wrs []RecvWR) error {
	n, err := qp.p.PostRecv(wrs)
	if err != nil {
		return qp.recvRefused(wrs, n, err)
	}
	return nil
}

// Close destroys the queue pair. Work requests still queued vanish without a
// completion: move to ERR and poll first to see them flushed. Completions that are in
// the CQ already may stay there. Closing again does nothing.
//
// A Close beside a Modify that takes long waits a tenth of a second for it and is then EBUSY,
// with the call in flight as the error's Detail: the queue pair stays open, and Close may be
// called again.
//
// Implements: int ibv_destroy_qp(struct ibv_qp *qp)
func (qp *QP) Close() error { return qp.close("ibv_destroy_qp", qp.p.Close) }
