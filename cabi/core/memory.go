//go:build linux && cgo

// Protection domains, memory regions and memory windows.

package main

// #include "../core.h"
import "C"

import (
	"math"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/verbs"
)

type pd struct {
	*context
	*verbs.PD
	importing sync.Mutex // held while the PD is imported or freed
	imports   int        // rv_import_pd's
}

type mr struct {
	*pd
	*verbs.MR
}

type mw struct {
	*pd
	*verbs.MW
}

// sharedKey is a window of the software device.
type sharedKey interface{ Share(rkey *uint32) }

var (
	pds handles[pd]
	mrs handles[mr]
	mws handles[mw]
)

//export rv_alloc_pd
func rv_alloc_pd(handle C.rv_handle, out *C.rv_handle) C.int {
	c := contexts.get(handle)
	p, err := c.AllocPD()
	if err != nil {
		return errnoOf(err)
	}
	*out = pds.add(&pd{context: c, PD: p})
	return 0
}

//export rv_dealloc_pd
func rv_dealloc_pd(handle C.rv_handle) C.int {
	p := pds.get(handle)
	p.importing.Lock()
	defer p.importing.Unlock()
	if p.imports > 0 {
		return errnoOf(errors.WithMessage(syscall.EBUSY, "deallocating a PD that is imported; try: ibv_unimport_pd first"))
	}
	return freePD(handle)
}

func freePD(handle C.rv_handle) C.int {
	return closing(&pds, handle, func(p *pd) error { return p.PD.Close() })
}

//export rv_import_pd
func rv_import_pd(ctx, handle C.rv_handle) C.int {
	p := pds.get(handle)
	if p == nil || p.context != contexts.get(ctx) {
		return C.int(syscall.ENOENT)
	}
	p.importing.Lock()
	defer p.importing.Unlock()
	if pds.get(handle) != p { // another thread has freed it
		return C.int(syscall.ENOENT)
	}
	p.imports++
	return 0
}

//export rv_unimport_pd
func rv_unimport_pd(handle C.rv_handle) {
	if p := pds.get(handle); p != nil { // else its context is closed
		p.importing.Lock()
		defer p.importing.Unlock()
		p.imports--
	}
}

// ignored has the access flags that the software device need not know: those of the optional
// range only make a device faster.
const ignored = verbs.Access(C.IBV_ACCESS_OPTIONAL_RANGE)

//export rv_reg_mr
func rv_reg_mr(handle C.rv_handle, addr C.uintptr_t, length C.size_t, iova C.uint64_t, access C.uint, out *C.rv_handle, lkey, rkey *C.uint32_t) C.int {
	o, a := verbs.MROptions{}, verbs.Access(access)&^ignored
	if addr == 0 && uint64(length) == math.MaxUint64 && a&verbs.AccessOnDemand != 0 {
		addr, length, iova = page, everything, page
	}
	buf, err := region(addr, length, a)
	if err != nil {
		return errnoOf(err)
	}
	if uint64(iova) == 0 {
		a |= verbs.AccessZeroBased
	} else if uint64(iova) != uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) {
		o.IOVA = uint64(iova)
	}
	p := pds.get(handle)
	m, err := p.RegMRWith(buf, a, o)
	return keep(p, m, err, out, lkey, rkey)
}

const (
	page       = 1 << 12        // the first page, at least
	everything = 1<<47 - 2*page // length of an implicit region (on-demand paging), which begins behind the first page
	maxLength  = 1 << 56        // more than the addresses of a process
)

// region returns memory of the program. Go never frees it, because it is not Go's. Go takes a
// pointer into the first page for a mistake and ends the process, so an address is a number
// until it is known to lie above.
func region(addr C.uintptr_t, length C.size_t, access verbs.Access) ([]byte, error) {
	const where = "registering %d bytes at %#x; try: "
	refused := func(errno syscall.Errno, remedy string) ([]byte, error) {
		return nil, errors.WithMessagef(errno, where+remedy, uint64(length), uint64(addr))
	}
	switch {
	case uint64(length) > maxLength || uint64(addr) > maxLength-uint64(length), length == 0 && uintptr(addr)%pageSize == 0:
		return refused(syscall.EINVAL, "memory of the process")
	case addr < page:
		return refused(syscall.EFAULT, "memory of the process")
	case access&verbs.AccessOnDemand != 0 && length > 0: // may be mapped later
	case !mapped(uintptr(addr), uintptr(length)):
		return refused(syscall.EFAULT, "memory that is mapped")
	case access&verbs.AccessLocalWrite != 0 && !endsWritable(uintptr(addr), uintptr(length)):
		return refused(syscall.EFAULT, "writable memory, or no IBV_ACCESS_LOCAL_WRITE")
	}
	if length == 0 {
		return nothing()
	}
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), addr)), int(length)), nil
}

// pageSize is the system's: some arm64 kernels have pages of 64 KiB.
var pageSize = uintptr(os.Getpagesize())

// mapped reports whether all pages of memory are mapped. msync with MS_ASYNC only asks for that: unlike mincore
// it does not look at each page.
func mapped(addr, length uintptr) bool {
	start := addr &^ (pageSize - 1)
	_, _, errno := unix.Syscall(unix.SYS_MSYNC, start, max(addr+length-start, 1), unix.MS_ASYNC)
	return errno != unix.ENOMEM
}

// writable reports whether a byte of mapped memory can be written. It writes what is there, at once.
func writable(addr uintptr) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { ok = recover() == nil }()
	atomic.AddUint32((*uint32)(unsafe.Add(unsafe.Pointer(nil), addr&^3)), 0)
	return true
}

// endsWritable reports whether the first and the last byte of mapped memory can be written.
func endsWritable(addr, length uintptr) bool { return writable(addr) && writable(addr+length-1) }

// mayWrite reports whether a region may gain LOCAL_WRITE.
func mayWrite(b []byte) bool {
	return len(b) == 0 || isNothing(b) || endsWritable(uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
}

// nothing returns the memory of a region of 0 bytes: a byte that nobody can read or write. As with rdma_rxe,
// such a region has an address inside of a page.
var nothing = sync.OnceValues(func() ([]byte, error) {
	b, err := unix.Mmap(-1, 0, int(pageSize), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	return b[:1], nil
})

func isNothing(b []byte) bool {
	none, err := nothing()
	return err == nil && unsafe.SliceData(b) == unsafe.SliceData(none)
}

//export rv_reg_dmabuf_mr
func rv_reg_dmabuf_mr(handle C.rv_handle, offset C.uint64_t, length C.size_t, iova C.uint64_t, fd C.int, access C.uint, out *C.rv_handle, lkey, rkey *C.uint32_t) C.int {
	p := pds.get(handle)
	m, err := p.RegDmabufMR(int(fd), uint64(offset), int(length), uint64(iova), verbs.Access(access)&^ignored)
	return keep(p, m, err, out, lkey, rkey)
}

func keep(p *pd, m *verbs.MR, err error, out *C.rv_handle, lkey, rkey *C.uint32_t) C.int {
	if err != nil {
		return errnoOf(err)
	}
	*out, *lkey, *rkey = mrs.add(&mr{p, m}), C.uint32_t(m.LKey()), C.uint32_t(m.LKey())
	return 0
}

//export rv_alloc_null_mr
func rv_alloc_null_mr(handle C.rv_handle, out *C.rv_handle, lkey *C.uint32_t) C.int {
	var rkey C.uint32_t // the peer cannot use the region
	p := pds.get(handle)
	m, err := p.AllocNullMR()
	return keep(p, m, err, out, lkey, &rkey)
}

//export rv_rereg_mr
func rv_rereg_mr(handle C.rv_handle, flags C.int, domain C.rv_handle, addr C.uintptr_t, length C.size_t, access C.uint, lkey, rkey *C.uint32_t) C.int {
	m := mrs.get(handle)
	if m == nil {
		return C.int(syscall.ENOENT)
	}
	r := verbs.Rereg{Flags: verbs.ReregFlags(flags), Access: verbs.Access(access) &^ ignored}
	if r.Flags&verbs.ReregPD != 0 && domain != 0 {
		r.PD = pds.get(domain).PD
	}
	if r.Flags&verbs.ReregTranslation != 0 {
		rights := m.Access()
		if r.Flags&verbs.ReregAccess != 0 {
			rights = r.Access
		}
		buf, err := region(addr, length, rights)
		if err != nil {
			return errnoOf(err)
		}
		r.Buf = buf
	} else if gained := r.Access &^ m.Access(); r.Flags&verbs.ReregAccess != 0 && gained&verbs.AccessLocalWrite != 0 && r.Access&verbs.AccessOnDemand == 0 && !mayWrite(m.Bytes()) {
		return C.int(syscall.EFAULT)
	}
	if err := m.Rereg(r); err != nil {
		return errnoOf(err)
	}
	*lkey, *rkey = C.uint32_t(m.LKey()), C.uint32_t(m.LKey())
	return 0
}

//export rv_import_mr
func rv_import_mr(domain, handle C.rv_handle, length *C.uint64_t, lkey, rkey *C.uint32_t) C.int {
	m := mrs.get(handle)
	if m == nil || m.context != pds.get(domain).context {
		return C.int(syscall.ENOENT)
	}
	*length, *lkey, *rkey = C.uint64_t(m.Len()), C.uint32_t(m.LKey()), C.uint32_t(m.LKey())
	if isNothing(m.Bytes()) {
		*length = 0
	}
	return 0
}

//export rv_dereg_mr
func rv_dereg_mr(handle C.rv_handle) C.int {
	return closing(&mrs, handle, func(m *mr) error { return m.MR.Close() })
}

//export rv_advise_mr
func rv_advise_mr(handle C.rv_handle, advice C.int, flags C.uint32_t, sgl *C.struct_ibv_sge, n C.uint32_t) C.int {
	return errnoOf(pds.get(handle).AdviseMR(verbs.MRAdvice(advice), verbs.MRAdviceFlags(flags), sges(sgl, C.int(n))))
}

//export rv_alloc_mw
func rv_alloc_mw(handle C.rv_handle, kind C.int, out *C.rv_handle, rkey *C.uint32_t) C.int {
	p := pds.get(handle)
	w, err := p.AllocMW(verbs.MWType(kind))
	if err != nil {
		return errnoOf(err)
	}
	*out, *rkey = mws.add(&mw{p, w}), C.uint32_t(w.RKey())
	if w.Type() == verbs.MWType2 { // rv_bind_mw returns the keys of the others
		verbs.ProviderOf(w).(sharedKey).Share((*uint32)(rkey))
	}
	return 0
}

//export rv_dealloc_mw
func rv_dealloc_mw(handle C.rv_handle) C.int {
	return closing(&mws, handle, func(w *mw) error { return w.MW.Close() })
}
