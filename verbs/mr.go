// Memory regions: memory that the device may touch, and the keys to it.

package verbs

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

// MR is a registered memory region (struct ibv_mr). The device may read and
// write its memory at any time while it is open; Go code must not touch what a
// posted work request or the peer is using. [PD.AllocMR], [PD.RegMR] and [PD.RegDmabufMR]
// make it; it is valid until Close, and so are its keys and addresses.
//
// Its methods may be called by several goroutines at once, but for [MR.Rereg], which
// wants the region for itself. Those that tell something answer after Close too.
type MR struct {
	handle
	p      ProviderMR
	pd     *PD
	buf    []byte
	addr   uint64  // what SGEs and the peer count from
	iova   *uint64 // what addr was chosen to be, nil if it was not
	length int
	access Access
	gone   bool           // the registration has ended; memory may still be to give back
	free   []func() error // give memory back after that; each is taken off once it did
}

// MROption changes how a region is registered: [HugePages], [IOVA].
type MROption func(*mrOptions)

type mrOptions struct {
	hugePages bool
	iova      *uint64
}

func optionsOf(options []MROption) (o mrOptions) {
	for _, option := range options {
		option(&o)
	}
	return o
}

// HugePages asks for the system's huge pages (vm.nr_hugepages), of 2 MiB; Linux only
// (elsewhere errors.ErrUnsupported), and for [PD.AllocMR] only, since the caller's memory is
// what it is: [PD.RegMR] answers EINVAL.
func HugePages() MROption { return func(o *mrOptions) { o.hugePages = true } }

// IOVA makes SGEs and the peer count from an address of the program's choice, not
// from the memory's own: its place within a page must be the memory's. The flag
// [AccessZeroBased] does the same for 0. What is sent from such a region cannot be
// [SendInline], which reads addresses of this process.
func IOVA(addr uint64) MROption { return func(o *mrOptions) { o.iova = &addr } }

// AllocMR registers size bytes of new, zeroed memory: whole pages that are pinned until
// Close, and that nothing else is in (with HugePages, rounded up to whole ones: see Len).
// It is memory of Go's heap, and counts as such for GOGC and GOMEMLIMIT: Close ends the
// device's access, and the collector frees it when no slice of it is left. So a goroutine
// that still reads or writes it then is harmless; it reads what was there last, or zeros
// after HugePages.
//
// EINVAL for a size below 1, or a remote right to write without [AccessLocalWrite]; ENOMEM
// if the machine has no such memory, or the process may not lock it (ulimit -l);
// errors.ErrUnsupported for rights that the device does not know. The domain cannot be
// closed before the region.
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access),
// struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access),
// struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
func (pd *PD) AllocMR(size int, access Access, options ...MROption) (*MR, error) {
	o := optionsOf(options)
	buf, free, err := newMemory(size, o.hugePages)
	if err != nil {
		e := fail("mmap", pd.device, fmt.Sprintf("%d bytes", size), err).(*Error)
		e.Hint = "a size above 0 that the machine has free"
		if o.hugePages {
			e.Hint += "; sysctl vm.nr_hugepages for huge pages"
		}
		return nil, e
	}
	return pd.register(buf, access, o, free)
}

// RegMR registers the caller's memory, which may lie on Go's heap: it is pinned
// until Close. The bytes between len(buf) and cap(buf) are not registered. Memory that
// is mapped must stay so until Close.
//
// EINVAL if it is empty, and EFAULT if it cannot be written though the device may; else
// the errors are those of [PD.AllocMR].
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access),
// struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access),
// struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
func (pd *PD) RegMR(buf []byte, access Access, options ...MROption) (*MR, error) {
	o := optionsOf(options)
	if len(buf) == 0 || o.hugePages {
		e := fail("ibv_reg_mr", pd.device, fmt.Sprintf("%d bytes", len(buf)), syscall.EINVAL).(*Error)
		if o.hugePages {
			e.Hint = "AllocMR, which can choose the pages"
		}
		return nil, e
	}
	return pd.register(buf, access, o, pin(buf))
}

// pins holds the pinned memory of every open region. A region that is lost
// unclosed stays in it, as the device still has the memory.
var pins sync.Map // *runtime.Pinner → struct{}

// pin keeps buf where it is until unpin is called.
func pin(buf []byte) (unpin func() error) {
	p := new(runtime.Pinner)
	p.Pin(unsafe.SliceData(buf))
	pins.Store(p, struct{}{})
	return func() error {
		pins.Delete(p)
		p.Unpin()
		return nil
	}
}

// register makes the region. If that fails or panics, it gives the memory back by free.
func (pd *PD) register(buf []byte, access Access, o mrOptions, free func() error) (*MR, error) {
	mr := &MR{pd: pd, buf: buf[:len(buf):len(buf)], addr: iovaOf(buf, access, o.iova), iova: o.iova, length: len(buf), access: access, free: []func() error{free}}
	defer func() {
		if mr.p == nil {
			_ = free() // registration's error is the one to report
		}
	}()
	p, err := makeObject(&mr.handle, "MR", "ibv_reg_mr", fmt.Sprintf("%d bytes, %s", len(buf), access.Name()),
		func() (ProviderMR, error) { return pd.p.RegMR(mr.buf, mr.addr, access) }, &pd.handle)
	if err != nil {
		return nil, err
	}
	mr.p = p
	return mr, nil
}

// iovaOf is what a region's addresses count from.
func iovaOf(buf []byte, access Access, chosen *uint64) uint64 {
	switch {
	case chosen != nil:
		return *chosen
	case access&AccessZeroBased != 0:
		return 0
	}
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf))))
}

// Bytes is the region's memory, not a copy; nil for a DMA-BUF's. It may be read and
// written after Close too: then the device does not touch it, and no other region gets
// it while a slice of it is left. Only memory that the caller had mapped for [PD.RegMR]
// lasts as long as the caller's mapping.
func (mr *MR) Bytes() []byte { return mr.buf }

// Len is the region's length in bytes.
func (mr *MR) Len() int { return mr.length }

// Addr is the address of the first byte, for SGEs and for the peer, who adds its
// offset to it: the memory's own, unless [IOVA] or [AccessZeroBased] set another.
func (mr *MR) Addr() uint64 { return mr.addr }

// Provider is the provider's side of the region. For providers.
func (mr *MR) Provider() ProviderMR { return mr.p }

// Access is what the region was registered for.
func (mr *MR) Access() Access { return mr.access }

// LKey is the key for this side's SGEs. Rereg may change it.
func (mr *MR) LKey() uint32 { return mr.p.LKey() }

// RKey is the key for the peer's RDMA and atomics; of no use to anybody, and 0 on some
// devices, if the region has no remote rights. Rereg may change it.
func (mr *MR) RKey() uint32 { return mr.p.RKey() }

// SGE names n bytes of the region, from its byte off on. Like a slice expression it
// panics if they are not all within the region, or more than 32 bits can count.
func (mr *MR) SGE(off, n int) SGE {
	sge, err := mr.Slice(off, n).SGE()
	if err != nil {
		panic("verbs: MR.SGE: " + err.Error())
	}
	return sge
}

// String prints address, length, keys and access.
func (mr *MR) String() string {
	return fmt.Sprintf("addr %#x len %d lkey %#x rkey %#x %s", mr.Addr(), mr.Len(), mr.LKey(), mr.RKey(), mr.access.Name())
}

// Close ends the registration and unpins the memory. Slices of the memory may still be
// used ([MR.Bytes]), by goroutines that run meanwhile too. EBUSY, or EINVAL from some
// drivers, while memory windows are bound to the region: invalidate or close them. Work
// requests that name the region must have completed, or they fail. If the system does
// not take huge pages back the registration has ended all the same, and another Close
// tries that again; else closing again does nothing.
//
// Implements: int ibv_dereg_mr(struct ibv_mr *mr)
func (mr *MR) Close() error {
	return mr.close("ibv_dereg_mr", func() error {
		if !mr.gone {
			if err := mr.p.Close(); err != nil {
				return err
			}
			mr.gone = true
		}
		return mr.giveBack()
	})
}

func (mr *MR) giveBack() error {
	for len(mr.free) > 0 {
		if err := mr.free[0](); err != nil {
			e := fail("mmap", mr.device, fmt.Sprintf("%d bytes of a closed region", mr.length), err).(*Error)
			e.Hint = "Close again; a higher vm.max_map_count if it was ENOMEM"
			return e
		}
		mr.free = mr.free[1:]
	}
	return nil
}
