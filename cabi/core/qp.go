//go:build linux && cgo

// Queue pairs and shared receive queues.

package main

// #include "../core.h"
import "C"

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs"
)

type qp struct {
	*pd
	*verbs.QP
	posts
	recvs    receives
	attached []group // multicast groups
}

type group struct {
	gid verbs.GID
	lid uint16
}

type srq struct {
	*pd
	*verbs.SRQ
	recvs receives
}

var (
	qps  handles[qp]
	srqs handles[srq]
)

//export rv_create_qp
func rv_create_qp(domain, sendCQ, recvCQ, shared C.rv_handle, kind, sigAll C.int, size *C.struct_ibv_qp_cap, element C.uint64_t, out *C.rv_handle, qpn *C.uint32_t) C.int {
	p := pds.get(domain)
	init := verbs.QPInit{
		Type: verbs.QPType(kind), SendCQ: cqs.get(sendCQ).CQ, RecvCQ: cqs.get(recvCQ).CQ, SigAll: sigAll != 0,
		Cap: verbs.QPCap{MaxSendWR: uint32(size.max_send_wr), MaxRecvWR: uint32(size.max_recv_wr),
			MaxSendSGE: uint32(size.max_send_sge), MaxRecvSGE: uint32(size.max_recv_sge), MaxInlineData: uint32(size.max_inline_data)},
	}
	if shared != 0 {
		init.SRQ = srqs.get(shared).SRQ
	}
	v, err := p.CreateQP(init)
	if err != nil {
		return errnoOf(err)
	}
	q := &qp{pd: p, QP: v}
	setCap(size, v.Cap())
	p.events.put(v.QPN(), target{p.context, uint64(element)})
	*out, *qpn = qps.add(q), C.uint32_t(v.QPN())
	return 0
}

func setCap(to *C.struct_ibv_qp_cap, c verbs.QPCap) {
	to.max_send_wr, to.max_recv_wr = C.uint32_t(c.MaxSendWR), C.uint32_t(c.MaxRecvWR)
	to.max_send_sge, to.max_recv_sge, to.max_inline_data = C.uint32_t(c.MaxSendSGE), C.uint32_t(c.MaxRecvSGE), C.uint32_t(c.MaxInlineData)
}

//export rv_destroy_qp
func rv_destroy_qp(handle C.rv_handle) C.int {
	return closing(&qps, handle, func(q *qp) error {
		if err := q.QP.Close(); err != nil {
			return err
		}
		q.events.drop(q.QPN())
		return nil
	})
}

//export rv_modify_qp
func rv_modify_qp(handle C.rv_handle, a *C.struct_ibv_qp_attr, mask C.int) C.int {
	q := qps.get(handle)
	return errnoOf(q.Modify(&verbs.QPAttr{
		State: verbs.QPState(a.qp_state), CurState: verbs.QPState(a.cur_qp_state),
		PathMTU: verbs.MTU(a.path_mtu), PathMigState: verbs.QPMigState(a.path_mig_state),
		QKey: uint32(a.qkey), RQPSN: uint32(a.rq_psn), SQPSN: uint32(a.sq_psn), DestQPN: uint32(a.dest_qp_num),
		Access: verbs.Access(a.qp_access_flags), AH: q.path(&a.ah_attr), AltAH: q.path(&a.alt_ah_attr),
		PKeyIndex: uint16(a.pkey_index), AltPKeyIndex: uint16(a.alt_pkey_index),
		EnSQDAsyncNotify: a.en_sqd_async_notify != 0, MaxRdAtomic: uint8(a.max_rd_atomic), MaxDestRdAtomic: uint8(a.max_dest_rd_atomic),
		MinRNRTimer: uint8(a.min_rnr_timer), PortNum: uint8(a.port_num), Timeout: uint8(a.timeout),
		RetryCnt: uint8(a.retry_cnt), RNRRetry: uint8(a.rnr_retry),
		AltPortNum: uint8(a.alt_port_num), AltTimeout: uint8(a.alt_timeout), RateLimit: uint32(a.rate_limit),
	}, verbs.QPAttrMask(mask)))
}

//export rv_query_qp
func rv_query_qp(handle C.rv_handle, out *C.struct_ibv_qp_attr, mask C.int) C.int {
	q := qps.get(handle)
	v, err := q.Query(verbs.QPAttrMask(mask))
	if err != nil {
		return errnoOf(err)
	}
	*out = C.struct_ibv_qp_attr{
		qp_state: uint32(v.State), cur_qp_state: uint32(v.State), path_mtu: uint32(v.PathMTU), path_mig_state: uint32(v.PathMigState),
		qkey: C.uint32_t(v.QKey), rq_psn: C.uint32_t(v.RQPSN), sq_psn: C.uint32_t(v.SQPSN), dest_qp_num: C.uint32_t(v.DestQPN),
		qp_access_flags: C.uint(v.Access), pkey_index: C.uint16_t(v.PKeyIndex), sq_draining: boolean(v.SQDraining),
		max_rd_atomic: C.uint8_t(v.MaxRdAtomic), max_dest_rd_atomic: C.uint8_t(v.MaxDestRdAtomic), min_rnr_timer: C.uint8_t(v.MinRNRTimer),
		port_num: C.uint8_t(v.PortNum), timeout: C.uint8_t(v.Timeout), retry_cnt: C.uint8_t(v.RetryCnt), rnr_retry: C.uint8_t(v.RNRRetry),
	}
	setCap(&out.cap, q.Cap())
	setPath(&out.ah_attr, &v.AH)
	return 0
}

func boolean(b bool) C.uint8_t {
	if b {
		return 1
	}
	return 0
}

//export rv_attach_mcast
func rv_attach_mcast(handle C.rv_handle, gid *C.union_ibv_gid, lid C.uint16_t) C.int {
	q, g := qps.get(handle), group{*(*verbs.GID)(unsafe.Pointer(gid)), uint16(lid)}
	if err := q.AttachMcast(g.gid, g.lid); err != nil {
		return errnoOf(err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.attached = append(q.attached, g)
	return 0
}

//export rv_detach_mcast
func rv_detach_mcast(handle C.rv_handle, gid *C.union_ibv_gid, lid C.uint16_t) C.int {
	q, g := qps.get(handle), group{*(*verbs.GID)(unsafe.Pointer(gid)), uint16(lid)}
	if err := q.DetachMcast(g.gid, g.lid); err != nil {
		return errnoOf(err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.attached = slices.DeleteFunc(q.attached, func(other group) bool { return other == g })
	return 0
}

//export rv_create_srq
func rv_create_srq(domain C.rv_handle, a *C.struct_ibv_srq_attr, element C.uint64_t, out *C.rv_handle) C.int {
	p := pds.get(domain)
	v, err := p.CreateSRQ(verbs.SRQInit{MaxWR: uint32(a.max_wr), MaxSGE: uint32(a.max_sge)})
	if err != nil {
		return errnoOf(err)
	}
	s := &srq{pd: p, SRQ: v}
	*out = srqs.add(s)
	p.events.put(verbs.ProviderOf(v), target{p.context, uint64(element)})
	return rv_query_srq(*out, a)
}

//export rv_modify_srq
func rv_modify_srq(handle C.rv_handle, a *C.struct_ibv_srq_attr, mask C.int) C.int {
	attr := verbs.SRQAttr{MaxWR: uint32(a.max_wr), MaxSGE: uint32(a.max_sge), Limit: uint32(a.srq_limit)}
	return errnoOf(srqs.get(handle).Modify(attr, verbs.SRQAttrMask(mask)))
}

//export rv_query_srq
func rv_query_srq(handle C.rv_handle, out *C.struct_ibv_srq_attr) C.int {
	v, err := srqs.get(handle).Query()
	*out = C.struct_ibv_srq_attr{max_wr: C.uint32_t(v.MaxWR), max_sge: C.uint32_t(v.MaxSGE), srq_limit: C.uint32_t(v.Limit)}
	return errnoOf(err)
}

//export rv_srq_number
func rv_srq_number(handle C.rv_handle, out *C.uint32_t) C.int {
	n, err := srqs.get(handle).Number()
	*out = C.uint32_t(n)
	return errnoOf(err)
}

//export rv_destroy_srq
func rv_destroy_srq(handle C.rv_handle) C.int {
	return closing(&srqs, handle, func(s *srq) error {
		if err := s.SRQ.Close(); err != nil {
			return err
		}
		s.events.drop(verbs.ProviderOf(s.SRQ))
		return nil
	})
}

// receives turns a chain of receives into a slice, which it reuses.
type receives struct {
	mu  sync.Mutex
	wrs []verbs.RecvWR
}

func (r *receives) post(wr *C.struct_ibv_recv_wr, bad **C.struct_ibv_recv_wr, post func([]verbs.RecvWR) error) C.int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrs = r.wrs[:0]
	var cut error
	for w := wr; w != nil; w = w.next {
		if cut = cutAt(len(r.wrs), "ibv_post_recv", w.sg_list, w.num_sge); cut != nil {
			break
		}
		r.wrs = append(r.wrs, verbs.RecvWR{ID: uint64(w.wr_id), SGL: sges(w.sg_list, w.num_sge)})
	}
	err := posted(r.wrs, cut, post)
	if err != nil {
		*bad = wr
		for range refusedAt(err) {
			*bad = (*bad).next
		}
	}
	return errnoOf(err)
}

//export rv_post_recv
func rv_post_recv(handle C.rv_handle, wr *C.struct_ibv_recv_wr, bad **C.struct_ibv_recv_wr) C.int {
	q := qps.get(handle)
	return q.recvs.post(wr, bad, q.PostRecv)
}

//export rv_post_srq_recv
func rv_post_srq_recv(handle C.rv_handle, wr *C.struct_ibv_recv_wr, bad **C.struct_ibv_recv_wr) C.int {
	s := srqs.get(handle)
	return s.recvs.post(wr, bad, s.PostRecv)
}
