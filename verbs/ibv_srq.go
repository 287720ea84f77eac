//go:build linux && cgo && !nolibibverbs

// The C wall: shared receive queues.

package verbs

// #include "ibv_shim.h"
import "C"

import (
	"sync"
	"unsafe"
)

// ibvSRQ is struct ibv_srq with the C memory into which its receives are encoded.
type ibvSRQ struct {
	table *ibvTable[*C.struct_ibv_srq, *ibvSRQ]
	srq   *C.struct_ibv_srq

	mu   sync.Mutex
	recv recvSlots // its target is empty after Close
}

func (p *ibvPD) CreateSRQ(init SRQInit) (ProviderSRQ, error) {
	var c C.struct_ibv_srq_init_attr
	c.attr.max_wr, c.attr.max_sge = C.uint32_t(init.MaxWR), C.uint32_t(init.MaxSGE)
	var srq *C.struct_ibv_srq
	if err := errnoErr(C.rv_create_srq(p.pd, &c, &srq)); err != nil {
		return nil, err
	}
	s := newIBVSRQ(unsafe.Pointer(srq), decodeSRQAttr(&c.attr), &p.d.srqs)
	p.d.srqs.put(srq, s)
	return s, nil
}

// newIBVSRQ makes the Go side of a struct ibv_srq *; see newIBVQP.
func newIBVSRQ(p unsafe.Pointer, granted SRQAttr, table *ibvTable[*C.struct_ibv_srq, *ibvSRQ]) *ibvSRQ {
	srq := (*C.struct_ibv_srq)(p)
	return &ibvSRQ{table: table, srq: srq, recv: newRecvSlots(recvTarget{srq: srq}, granted.MaxWR, granted.MaxSGE)}
}

func (s *ibvSRQ) PostRecv(wrs []RecvWR) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recv.postAll(wrs)
}

func (s *ibvSRQ) Modify(attr SRQAttr, mask SRQAttrMask) error {
	c := C.struct_ibv_srq_attr{max_wr: C.uint32_t(attr.MaxWR), max_sge: C.uint32_t(attr.MaxSGE), srq_limit: C.uint32_t(attr.Limit)}
	s.mu.Lock() // libibverbs' providers replace the queue, so nobody may post meanwhile
	defer s.mu.Unlock()
	return errnoErr(C.rv_modify_srq(s.srq, &c, C.int(mask)))
}

func (s *ibvSRQ) Query() (SRQAttr, error) {
	var c C.struct_ibv_srq_attr
	err := errnoErr(C.rv_query_srq(s.srq, &c))
	return decodeSRQAttr(&c), err
}

func (s *ibvSRQ) Number() (uint32, error) {
	var n C.uint32_t
	err := errnoErr(C.rv_get_srq_num(s.srq, &n))
	return uint32(n), err
}

func (s *ibvSRQ) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.drop(s.srq) // before another SRQ can get the address
	if err := errnoErr(C.rv_destroy_srq(s.srq)); err != nil {
		s.table.put(s.srq, s)
		return err
	}
	s.recv.free()
	return nil
}

func decodeSRQAttr(c *C.struct_ibv_srq_attr) SRQAttr {
	return SRQAttr{MaxWR: uint32(c.max_wr), MaxSGE: uint32(c.max_sge), Limit: uint32(c.srq_limit)}
}
