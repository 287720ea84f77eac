//go:build linux && cgo && !nolibibverbs

// The C wall: making, moving and querying queue pairs. Posting is in ibv_post.go.

package verbs

// #include "ibv_builder.h"
import "C"

import (
	"sync"
	"unsafe"

	"github.com/rawverbs/rawverbs/qpstate"
)

// ibvQP is struct ibv_qp with the C memory into which its work requests are encoded.
type ibvQP struct {
	qpn   uint32
	cap   QPCap
	onSRQ bool // it has no receive queue of its own
	built bool // its sends use the ibv_wr_* calls

	sendMu sync.Mutex
	send   sendSlots // its qp is nil after Close

	recvMu sync.Mutex
	recv   recvSlots

	qp *C.struct_ibv_qp
}

func (p *ibvPD) CreateQP(init ProviderQPInit) (ProviderQP, error) {
	var c C.struct_ibv_qp_init_attr
	c.send_cq = init.SendCQ.(*ibvCQ).cq
	c.recv_cq = init.RecvCQ.(*ibvCQ).cq
	c.qp_type = C.enum_ibv_qp_type(init.Type)
	c.cap = C.struct_ibv_qp_cap{
		max_send_wr:     C.uint32_t(init.Cap.MaxSendWR),
		max_recv_wr:     C.uint32_t(init.Cap.MaxRecvWR),
		max_send_sge:    C.uint32_t(init.Cap.MaxSendSGE),
		max_recv_sge:    C.uint32_t(init.Cap.MaxRecvSGE),
		max_inline_data: C.uint32_t(init.Cap.MaxInlineData),
	}
	if init.SRQ != nil {
		c.srq = init.SRQ.(*ibvSRQ).srq
		c.cap.max_recv_wr, c.cap.max_recv_sge = 0, 0
	}
	if init.SigAll {
		c.sq_sig_all = 1
	}
	var qp *C.struct_ibv_qp
	var ex *C.struct_ibv_qp_ex
	var atomicWrite C.int
	var err error
	if init.PostPath == PostWRAPI {
		err = errnoErr(C.rv_create_qp_ex(p.pd, &c, &qp, &ex, &atomicWrite))
	} else {
		err = errnoErr(C.rv_create_qp(p.pd, &c, &qp))
	}
	if err != nil {
		return nil, err
	}
	q := newIBVQP(p, unsafe.Pointer(qp), unsafe.Pointer(ex), decodeCap(&c.cap))
	q.onSRQ = init.SRQ != nil
	q.send.remapped = &p.d.remapped
	q.send.atomicWrite = atomicWrite != 0
	return q, nil
}

// newIBVQP makes the Go side of a struct ibv_qp *. It posts with ex unless ex is NULL. The pointers
// have type unsafe.Pointer because tests, which cannot name C types, call it.
func newIBVQP(pd *ibvPD, p, ex unsafe.Pointer, cap QPCap) *ibvQP {
	qp := (*C.struct_ibv_qp)(p)
	return &ibvQP{qpn: uint32(qp.qp_num), cap: cap, qp: qp, built: ex != nil,
		send: newSendSlots(pd, qp, (*C.struct_ibv_qp_ex)(ex), cap),
		recv: newRecvSlots(recvTarget{qp: qp}, cap.MaxRecvWR, cap.MaxRecvSGE)}
}

// PostPath returns the API in use.
func (q *ibvQP) PostPath() PostPath {
	if q.built {
		return PostWRAPI
	}
	return PostClassic
}

func (q *ibvQP) QPN() uint32 { return q.qpn }
func (q *ibvQP) Cap() QPCap  { return q.cap }

func (q *ibvQP) Modify(attr *QPAttr, mask QPAttrMask) error {
	if mask&qpstate.MaskState == 0 || attr.State != qpstate.Reset {
		return q.modify(attr, mask) // movedOn asks for the state at the first send
	}
	q.sendMu.Lock() // no post may run between the device's move and the change of ready
	defer q.sendMu.Unlock()
	err := q.modify(attr, mask)
	q.send.ready = q.send.ready && err != nil
	return err
}

func (q *ibvQP) modify(attr *QPAttr, mask QPAttrMask) error {
	c := encodeQPAttr(attr)
	return errnoErr(C.rv_modify_qp(q.qp, &c, C.int(mask)))
}

func (q *ibvQP) Query(mask QPAttrMask) (QPAttr, error) {
	var c C.struct_ibv_qp_attr
	if err := errnoErr(C.rv_query_qp(q.qp, &c, C.int(mask))); err != nil {
		return QPAttr{}, err
	}
	return decodeQPAttr(&c), nil
}

func (q *ibvQP) Close() error {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	if err := errnoErr(C.rv_destroy_qp(q.qp)); err != nil {
		return err
	}
	q.send.free()
	q.recv.free()
	return nil
}

func encodeQPAttr(a *QPAttr) (c C.struct_ibv_qp_attr) {
	c.qp_state = C.enum_ibv_qp_state(a.State)
	c.cur_qp_state = C.enum_ibv_qp_state(a.CurState)
	c.path_mtu = C.enum_ibv_mtu(a.PathMTU)
	c.path_mig_state = C.enum_ibv_mig_state(a.PathMigState)
	c.qkey = C.uint32_t(a.QKey)
	c.rq_psn = C.uint32_t(a.RQPSN)
	c.sq_psn = C.uint32_t(a.SQPSN)
	c.dest_qp_num = C.uint32_t(a.DestQPN)
	c.qp_access_flags = C.uint(a.Access)
	c.ah_attr = encodeAH(&a.AH)
	c.alt_ah_attr = encodeAH(&a.AltAH)
	c.pkey_index = C.uint16_t(a.PKeyIndex)
	c.alt_pkey_index = C.uint16_t(a.AltPKeyIndex)
	if a.EnSQDAsyncNotify {
		c.en_sqd_async_notify = 1
	}
	c.max_rd_atomic = C.uint8_t(a.MaxRdAtomic)
	c.max_dest_rd_atomic = C.uint8_t(a.MaxDestRdAtomic)
	c.min_rnr_timer = C.uint8_t(a.MinRNRTimer)
	c.port_num = C.uint8_t(a.PortNum)
	c.timeout = C.uint8_t(a.Timeout)
	c.retry_cnt = C.uint8_t(a.RetryCnt)
	c.rnr_retry = C.uint8_t(a.RNRRetry)
	c.alt_port_num = C.uint8_t(a.AltPortNum)
	c.alt_timeout = C.uint8_t(a.AltTimeout)
	c.rate_limit = C.uint32_t(a.RateLimit)
	return c
}

func decodeQPAttr(c *C.struct_ibv_qp_attr) QPAttr {
	return QPAttr{
		State:            QPState(c.qp_state),
		CurState:         QPState(c.cur_qp_state),
		PathMTU:          MTU(c.path_mtu),
		PathMigState:     QPMigState(c.path_mig_state),
		QKey:             uint32(c.qkey),
		RQPSN:            uint32(c.rq_psn),
		SQPSN:            uint32(c.sq_psn),
		DestQPN:          uint32(c.dest_qp_num),
		Access:           Access(c.qp_access_flags),
		Cap:              decodeCap(&c.cap),
		AH:               decodeAH(&c.ah_attr),
		AltAH:            decodeAH(&c.alt_ah_attr),
		PKeyIndex:        uint16(c.pkey_index),
		AltPKeyIndex:     uint16(c.alt_pkey_index),
		EnSQDAsyncNotify: c.en_sqd_async_notify != 0,
		SQDraining:       c.sq_draining != 0,
		MaxRdAtomic:      uint8(c.max_rd_atomic),
		MaxDestRdAtomic:  uint8(c.max_dest_rd_atomic),
		MinRNRTimer:      uint8(c.min_rnr_timer),
		PortNum:          uint8(c.port_num),
		Timeout:          uint8(c.timeout),
		RetryCnt:         uint8(c.retry_cnt),
		RNRRetry:         uint8(c.rnr_retry),
		AltPortNum:       uint8(c.alt_port_num),
		AltTimeout:       uint8(c.alt_timeout),
		RateLimit:        uint32(c.rate_limit),
	}
}

func decodeCap(c *C.struct_ibv_qp_cap) QPCap {
	return QPCap{
		MaxSendWR: uint32(c.max_send_wr), MaxRecvWR: uint32(c.max_recv_wr),
		MaxSendSGE: uint32(c.max_send_sge), MaxRecvSGE: uint32(c.max_recv_sge),
		MaxInlineData: uint32(c.max_inline_data),
	}
}
