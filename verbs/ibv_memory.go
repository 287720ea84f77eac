//go:build linux && cgo && !nolibibverbs

// The C wall: memory regions and memory windows.

package verbs

// #include "ibv_memory.h"
import "C"

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// ibvMR is struct ibv_mr.
type ibvMR struct {
	posted
	d          *ibvDevice
	mr         *C.struct_ibv_mr
	lkey, rkey atomic.Uint32 // copies that are valid after mr was freed
	among      *remapped     // nil if the region's addresses are pointers
}

// newIBVMR makes the Go side of a struct ibv_mr *; see newIBVQP.
func newIBVMR(d *ibvDevice, p unsafe.Pointer) *ibvMR {
	m := &ibvMR{d: d, mr: (*C.struct_ibv_mr)(p)}
	m.readKeys()
	return m
}

func (m *ibvMR) readKeys() {
	m.lkey.Store(uint32(m.mr.lkey))
	m.rkey.Store(uint32(m.mr.rkey))
}

// bytesOf returns Go memory as a pointer for C; see ibv_memory.h.
func bytesOf(buf []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(buf)) }

func (p *ibvPD) RegMR(buf []byte, iova uint64, access Access) (ProviderMR, error) {
	var mr *C.struct_ibv_mr
	start := bytesOf(buf)
	if err := errnoErr(C.rv_reg_mr(p.pd, start, C.size_t(len(buf)), C.uint64_t(iova), C.int(access), &mr)); err != nil {
		return nil, err
	}
	m := newIBVMR(p.d, unsafe.Pointer(mr))
	if iova != uint64(uintptr(unsafe.Pointer(start))) {
		m.remap(&p.d.remapped)
	}
	return m, nil
}

func (p *ibvPD) RegDmabufMR(fd int, offset, length, iova uint64, access Access) (ProviderMR, error) {
	var mr *C.struct_ibv_mr
	errno := C.rv_reg_dmabuf_mr(p.pd, C.uint64_t(offset), C.size_t(length), C.uint64_t(iova), C.int(fd), C.int(access), &mr)
	if err := errnoErr(errno); err != nil {
		return nil, err
	}
	m := newIBVMR(p.d, unsafe.Pointer(mr))
	m.remap(&p.d.remapped)
	return m, nil
}

func (p *ibvPD) AllocNullMR() (ProviderMR, error) {
	var mr *C.struct_ibv_mr
	if err := errnoErr(C.rv_alloc_null_mr(p.pd, &mr)); err != nil {
		return nil, err
	}
	m := newIBVMR(p.d, unsafe.Pointer(mr))
	m.remap(&p.d.remapped) // its addresses are no pointers: inline data cannot come from it
	return m, nil
}

func (p *ibvPD) AdviseMR(advice MRAdvice, flags MRAdviceFlags, sgl []SGE) error {
	if len(sgl) == 0 {
		return syscall.EINVAL
	}
	return errnoErr(C.rv_advise_mr(p.pd, C.int(advice), C.uint32_t(flags), (*C.struct_ibv_sge)(unsafe.Pointer(&sgl[0])), C.uint32_t(len(sgl))))
}

func (m *ibvMR) LKey() uint32 { return m.lkey.Load() }
func (m *ibvMR) RKey() uint32 { return m.rkey.Load() }

func (m *ibvMR) Rereg(flags ReregFlags, pd ProviderPD, buf []byte, iova uint64, access Access) (lost bool, err error) {
	var domain *C.struct_ibv_pd
	var start *C.uint8_t
	var length C.size_t
	var rights C.int // C requires 0 for properties that flags does not name
	if flags&ReregPD != 0 {
		domain = pd.(*ibvPD).pd
	}
	if flags&ReregAccess != 0 {
		rights = C.int(access)
	}
	if flags&ReregTranslation != 0 {
		start, length = bytesOf(buf), C.size_t(len(buf))
		if iova != uint64(uintptr(unsafe.Pointer(start))) {
			return false, syscall.EOPNOTSUPP // C has no call for that
		}
	}
	var broken C.int
	err = errnoErr(C.rv_rereg_mr(m.mr, C.int(flags), domain, start, length, rights, &broken))
	if err == nil {
		old := m.LKey()
		m.readKeys()
		m.rekeyed(old)
	}
	return broken != 0, err
}

func (m *ibvMR) Close() error {
	return m.end(func() error {
		if m.among != nil {
			m.among.remove(m.LKey()) // before another region can get the key
		}
		err := errnoErr(C.rv_dereg_mr(m.mr))
		if err != nil && m.among != nil {
			m.among.add(m.LKey())
		}
		return err
	})
}

// ibvMW is struct ibv_mw.
type ibvMW struct {
	posted
	d    *ibvDevice
	mw   *C.struct_ibv_mw
	rkey atomic.Uint32
}

func (p *ibvPD) AllocMW(t MWType) (ProviderMW, error) {
	var mw *C.struct_ibv_mw
	if err := errnoErr(C.rv_alloc_mw(p.pd, C.int(t), &mw)); err != nil {
		return nil, err
	}
	return newIBVMW(p.d, unsafe.Pointer(mw)), nil
}

// newIBVMW makes the Go side of a struct ibv_mw *; see newIBVQP.
func newIBVMW(d *ibvDevice, p unsafe.Pointer) *ibvMW {
	w := &ibvMW{d: d, mw: (*C.struct_ibv_mw)(p)}
	w.rkey.Store(uint32(w.mw.rkey))
	return w
}

func (w *ibvMW) RKey() uint32 { return w.rkey.Load() }

// bound stores the key of a posted type 2 bind for the next bind. C leaves that to its caller, and
// rdma_rxe needs it.
func (w *ibvMW) bound(rkey uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&w.mw.rkey)), rkey)
	w.rkey.Store(rkey)
}

func (w *ibvMW) Close() error {
	return w.end(func() error { return errnoErr(C.rv_dealloc_mw(w.mw)) })
}

// ibvBind is a bind's C objects, held until the post is over.
type ibvBind struct {
	mw   *ibvMW
	mr   *ibvMR
	rkey uint32 // the window's new key
}

// holdBind holds the objects of a bind. ok is false if they are another device's or closed.
func (p *ibvPD) holdBind(b *MWBind) (h ibvBind, ok bool) {
	var isMW, isMR bool
	h.mw, isMW = b.MW.p.(*ibvMW)
	h.mr, isMR = b.MR.p.(*ibvMR)
	h.rkey = b.RKey
	if !isMW || !isMR || h.mw.d != p.d || h.mr.d != p.d || !h.mw.hold() {
		return h, false
	}
	if !h.mr.hold() {
		h.mw.release()
		return h, false
	}
	return h, true
}

func (h *ibvBind) release() {
	h.mw.release()
	h.mr.release()
}

func (q *ibvQP) BindMW(id uint64, flags SendFlags, b *MWBind) error {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	if err := q.refusal(); err != nil {
		return err
	}
	h, ok := q.send.pd.holdBind(b)
	if !ok {
		return syscall.EINVAL
	}
	defer h.release()
	errno := C.rv_bind_mw(q.send.qp, h.mw.mw, C.uint64_t(id), C.uint(flags), h.mr.mr,
		C.uint64_t(b.Addr), C.uint64_t(b.Length), C.uint(b.Access))
	if err := errnoErr(errno); err != nil {
		return err
	}
	h.mw.rkey.Store(uint32(h.mw.mw.rkey))
	return nil
}
