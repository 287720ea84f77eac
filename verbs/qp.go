// Queue pairs: making, moving, querying and posting.

package verbs

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/internal/sync/ctxwatch"
	"github.com/rawverbs/rawverbs/qpstate"
)

// QPInit describes a new queue pair (struct ibv_qp_init_attr). Type, SendCQ and RecvCQ must be set.
// Both CQs may be the same CQ.
type QPInit struct {
	Type           QPType   // RC, UC or UD; the zero value is invalid
	SendCQ, RecvCQ *CQ      // where sends and receives complete
	SRQ            *SRQ     // nil: the queue pair has its own receive queue; otherwise Cap's receive sizes are ignored
	Cap            QPCap    // requested sizes; QP.Cap returns the granted sizes. Soft devices grant at least 1 of each, except inline data
	SigAll         bool     // every send completes; false: only sends with SendSignaled and failed sends complete
	PostPath       PostPath // how sends are posted; the zero value is PostAuto
}

// QP is a queue pair (struct ibv_qp). [PD.CreateQP] makes it in RESET; it is valid until Close.
// Three calls of Modify move it to RTS ([QP.Machine] makes them). Errors move it to ERR.
//
// All methods of a QP may be called at the same time by several goroutines, Close included. Posts to
// one queue run one after the other, a whole slice at a time. Calls of Modify also run one after the
// other. [QP.Close] may return EBUSY during a Modify. QPN, Type, Cap, State, SendCQ, RecvCQ, SRQ and
// PostPath do not ask the device and are valid after Close.
type QP struct {
	handle
	p    ProviderQP
	dev  *Device
	init QPInit

	modifying chan struct{} // holds one while a Modify is in flight
	stateMu   sync.Mutex    // guards the rest
	state     QPState       // after the last Modify; an asynchronous error may have changed it since
	port      uint8         // set at RESET→INIT
}

// CreateQP makes a queue pair in RESET. The domain, the CQs and the SRQ cannot be closed before the
// queue pair is.
//
// EINVAL for a missing CQ, objects of another device, or sizes above the device's limits
// (DeviceAttr.MaxQPWR, MaxSGE); ENOMEM if there is no memory, or if the process may not lock
// more memory; errors.ErrUnsupported for a type or a PostPath that the device does not have.
//
// Implements: struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr),
// struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *qp_init_attr_ex),
// struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
func (pd *PD) CreateQP(init QPInit) (*QP, error) {
	detail := fmt.Sprintf("%s, %+v", init.Type.Name(), init.Cap)
	if init.SendCQ == nil || init.RecvCQ == nil {
		return nil, &Error{Op: "ibv_create_qp", Device: pd.device, Detail: detail, Errno: syscall.EINVAL, Hint: "both SendCQ and RecvCQ; they may be the same"}
	}
	if init.SendCQ.dev != pd.dev || init.RecvCQ.dev != pd.dev {
		return nil, otherDevice("ibv_create_qp", pd.device, "the CQs are of "+init.SendCQ.device+" and "+init.RecvCQ.device)
	}
	parents := []*handle{&pd.handle, &init.SendCQ.handle}
	if init.RecvCQ != init.SendCQ {
		parents = append(parents, &init.RecvCQ.handle)
	}
	if init.PostPath > PostWRAPI {
		return nil, &Error{Op: "ibv_create_qp", Device: pd.device, Detail: "PostPath " + init.PostPath.String(), Errno: syscall.EINVAL,
			Hint: "PostAuto, PostClassic or PostWRAPI"}
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
	return makeObject(qp, &qp.handle, &qp.p, "QP", "ibv_create_qp", detail, func() (ProviderQP, error) {
		return pd.p.CreateQP(ProviderQPInit{
			Type: init.Type, SendCQ: init.SendCQ.p, RecvCQ: init.RecvCQ.p, SRQ: srq, Cap: init.Cap, SigAll: init.SigAll, PostPath: init.PostPath})
	}, parents...)
}

// QPN returns the queue pair's number, 24 bits. The peer sends to this number.
func (qp *QP) QPN() uint32 { return qp.p.QPN() }

// Type returns the transport type.
func (qp *QP) Type() QPType { return qp.init.Type }

// Cap returns the granted sizes, which are at least the requested ones. With an SRQ, soft devices
// grant 0 receives.
func (qp *QP) Cap() QPCap { return qp.p.Cap() }

// SendCQ returns the CQ on which sends complete.
func (qp *QP) SendCQ() *CQ { return qp.init.SendCQ }

// RecvCQ returns the CQ on which receives complete.
func (qp *QP) RecvCQ() *CQ { return qp.init.RecvCQ }

// SRQ returns the shared receive queue, or nil if the queue pair has its own receive queue.
func (qp *QP) SRQ() *SRQ { return qp.init.SRQ }

// Modify applies the attributes that mask names. It passes the call to the device, with one
// exception: it refuses a mask without STATE if attr.State is a legal next state and the table
// forbids the mask without STATE. If the device returns EINVAL or EOPNOTSUPP, the error names the
// bit or the value that the table or the port's attributes forbid. [qpstate.Machine] makes the
// masks.
//
// The error is an *[Error]. EINVAL (on some kernels EOPNOTSUPP) for a mask or a state that the
// table forbids; errors.As then finds a *[qpstate.TransitionError]. EINVAL also for a wrong value.
// ENODATA for an empty slot of the GID table; ETIMEDOUT, ENETUNREACH or EHOSTUNREACH if the kernel
// does not find the peer; EPERM for a QKEY of 0x80000000 or more without CAP_NET_RAW;
// net.ErrClosed after Close.
//
// On RoCE a move to RTR may take seconds, while the kernel looks for the peer: see
// [QP.ModifyContext]. Calls of Modify on one queue pair run one after the other. All other methods
// may run during a Modify.
//
// Implements: int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (qp *QP) Modify(attr *QPAttr, mask QPAttrMask) error {
	return qp.ModifyContext(context.Background(), attr, mask)
}

// ModifyContext is [QP.Modify] with a context: it returns when ctx ends. The error then matches
// ctx.Err() and context.Cause(ctx) with errors.Is. The kernel continues the call, so the move may
// still happen. Until the kernel is done, Close returns EBUSY.
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
	own := *attr // the caller may reuse attr after ctx has ended
	_, err := within(ctx, func() (none struct{}, err error) {
		defer qp.end(op)
		return none, qp.modify(&own, mask)
	}, func(struct{}) {})
	if _, ok := err.(*Error); err == nil || ok {
		return err
	}
	return qp.fail(op, qp.name()+", "+mask.Name(), err)
}

// modify runs a Modify that has begun and holds modifying.
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

// State returns the state after the last Modify, without asking the device. Errors also move queue
// pairs; [QP.Query] returns the current state. State never waits, not even for a Modify in
// progress. It is valid after Close.
func (qp *QP) State() QPState {
	qp.stateMu.Lock()
	defer qp.stateMu.Unlock()
	return qp.state
}

// Machine returns a [qpstate.Machine] that begins in the state after the last Modify. Its methods
// (ToInit, ToRTR, ToRTS) make the moves with the right masks. If observe is not nil, the Machine
// calls it after every move. A Machine is for one goroutine at a time.
func (qp *QP) Machine(observe func(qpstate.Step)) *qpstate.Machine {
	m := qpstate.NewMachine(qp.Type(), qp, observe)
	m.Observed(qp.State())
	return m
}

// Query reads the attributes that mask names from the device, which may fill in others too.
// net.ErrClosed after Close.
//
// Implements: int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr)
func (qp *QP) Query(mask QPAttrMask) (QPAttr, error) {
	return query(&qp.handle, "ibv_query_qp", qp.name(), func() (QPAttr, error) { return qp.p.Query(mask) })
}

// PostSend queues send work requests in order. If a request is refused, the error is a
// *[PostError] with the request's index: the requests before it are queued, the others are not.
// The slice may be reused at once. The memory named by the SGEs belongs to the device until the
// completion. PostSend does not allocate, but a slice literal in the call does: reuse slices where
// speed matters. On libibverbs up to 256 requests are one call into C.
//
// ENOMEM means that the queue is full. The place of a request is free at the latest after the
// completion of this request, or of a later one, was polled. An *[OverrunError] means that one of
// the queue pair's CQs overran. net.ErrClosed after Close. In ERR and SQE requests are queued and
// flushed at once.
//
// EINVAL in these cases:
//
//   - The queue pair is in RESET, INIT or RTR.
//   - The opcode does not exist for the queue pair's type.
//   - The request has more elements or more inline data than Cap (some drivers: ENOMEM).
//   - The inline data is in a region under other addresses; see [SendInline].
//   - The AH or the Bind is missing or closed, the AH is of another domain, or the Bind names
//     objects of another device.
//   - The remote address of an atomic or an ATOMIC WRITE is not a multiple of 8.
//   - An ATOMIC WRITE does not have exactly one element of 8 bytes.
//   - A FLUSH has no type.
//
// errors.ErrUnsupported for OpAtomicWrite and OpFlush if they are missing. On libibverbs
// OpAtomicWrite needs [PostWRAPI] and a device with [CapAtomicWrite], and OpFlush does not exist.
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
	if qp.overran() {
		return qp.overrunRefused("ibv_post_send")
	}
	n, err := qp.p.PostSend(wrs)
	if err != nil {
		return qp.sendRefused(wrs, n, err)
	}
	return nil
}

// PostRecv queues receive work requests in order, with the rules of [QP.PostSend]. Receives can be
// posted from INIT on. ENOMEM means that the queue is full. EINVAL in RESET, for a request with too
// many elements, and for a queue pair with an SRQ: post to the SRQ instead. net.ErrClosed after
// Close.
//
// Implements: int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
func (qp *QP) PostRecv(wrs []RecvWR) error {
	if qp.overran() {
		return qp.overrunRefused("ibv_post_recv")
	}
	n, err := qp.p.PostRecv(wrs)
	if err != nil {
		return qp.recvRefused(wrs, n, err)
	}
	return nil
}

// Close destroys the queue pair. Queued work requests vanish without a completion; to get their
// completions, move to ERR and poll before Close. Completions already in the CQ may stay there.
// Closing again does nothing.
//
// Close waits up to a tenth of a second for a Modify in progress and then returns EBUSY, with the
// call in the error's Detail. The queue pair stays open, and Close may be called again. Close also
// returns EBUSY while the queue pair is attached to a multicast group.
//
// Implements: int ibv_destroy_qp(struct ibv_qp *qp)
func (qp *QP) Close() error {
	if qp == nil || qp.p == nil {
		return nil
	}
	return qp.close("ibv_destroy_qp", qp.p.Close)
}
