// Memory regions: memory that the device may access, and its keys.

package verbs

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"github.com/rawverbs/rawverbs/internal/sync/closing"
)

// MR is a registered memory region (struct ibv_mr). The device may read and write the memory at any
// time while the region is open. Go code must not touch bytes that a posted work request or the
// peer is using. [PD.AllocMR], [PD.RegMR] and [PD.RegDmabufMR] make regions. A region, its keys and
// its addresses are valid until Close.
//
// All methods of an MR may be called at the same time by several goroutines, Close included. The
// exception is [MR.Rereg]: while it runs, no other method may be called. All methods except Rereg
// are valid after Close.
type MR struct {
	handle
	p       ProviderMR
	pd      *PD
	buf     []byte
	addr    uint64 // address of the first byte, for SGEs and the peer
	iova    uint64 // MROptions.IOVA
	length  int
	access  Access
	gone    bool           // the registration has ended; free may still have functions to call
	free    []func() error // functions that give memory back after the registration; removed when they succeed
	onClose func()         // see package closing; may be nil
}

func init() {
	closing.OnClose = func(region any, f func()) { region.(*MR).onClose = f }
}

// MROptions is what few regions need. The zero value is what [PD.AllocMR] and [PD.RegMR] use.
type MROptions struct {
	// HugePages requests huge pages of 2 MiB from the system (vm.nr_hugepages). It is for
	// [PD.AllocMRWith] only: [PD.RegMRWith] returns EINVAL, because it cannot choose the caller's
	// pages. Systems other than Linux return errors.ErrUnsupported.
	HugePages bool

	// IOVA, if it is not 0, is the address of the first byte for SGEs and for the peer, in place of
	// the memory's own address. It must have the same offset within a page as the memory.
	// [AccessZeroBased] does the same for address 0. Sends from such a region cannot use
	// [SendInline], which reads addresses of this process.
	IOVA uint64
}

// AllocMR registers size bytes of new, zeroed memory. The memory consists of whole pages that
// contain nothing else.
//
// The memory is on Go's heap, counts for GOGC and GOMEMLIMIT, and is pinned until Close. Close ends
// the device's access. The collector frees the memory when no slice refers to it. So a goroutine
// that uses the memory after Close does no harm; it finds the last contents.
//
// EINVAL for a size below 1, or for a remote right to write without [AccessLocalWrite]; ENOMEM if
// the machine does not have the memory, or if the process may not lock it (ulimit -l);
// errors.ErrUnsupported for access flags that the device does not support. The domain cannot be
// closed before the region is.
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
func (pd *PD) AllocMR(size int, access Access) (*MR, error) {
	return pd.AllocMRWith(size, access, MROptions{})
}

// AllocMRWith is [PD.AllocMR] with options. With HugePages the size is rounded up to whole huge
// pages; Len returns the result. Memory of huge pages holds zeros after Close.
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access),
// struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access),
// struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
func (pd *PD) AllocMRWith(size int, access Access, o MROptions) (*MR, error) {
	buf, free, err := newMemory(size, o.HugePages)
	if err != nil {
		e := fail("mmap", pd.device, fmt.Sprintf("%d bytes", size), err).(*Error)
		e.Hint = "a size above 0 that the machine has free"
		if o.HugePages {
			e.Hint += "; sysctl vm.nr_hugepages for huge pages"
		}
		return nil, e
	}
	return pd.register(buf, access, o, free)
}

// RegMR registers the caller's memory, which may be on Go's heap. The memory is pinned until Close.
// Bytes between len(buf) and cap(buf) are not registered. If the caller mapped the memory, it must
// stay mapped until Close.
//
// EINVAL if buf is empty; EFAULT if the device may write to memory that is not writable. The other
// errors are those of [PD.AllocMR].
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
func (pd *PD) RegMR(buf []byte, access Access) (*MR, error) {
	return pd.RegMRWith(buf, access, MROptions{})
}

// RegMRWith is [PD.RegMR] with options.
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access),
// struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access),
// struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
func (pd *PD) RegMRWith(buf []byte, access Access, o MROptions) (*MR, error) {
	if len(buf) == 0 || o.HugePages {
		e := fail("ibv_reg_mr", pd.device, fmt.Sprintf("%d bytes", len(buf)), syscall.EINVAL).(*Error)
		if o.HugePages {
			e.Hint = "AllocMR, which can choose the pages"
		}
		return nil, e
	}
	return pd.register(buf, access, o, pin(buf))
}

// pins holds the pinned memory of every open region. The memory of a region that was lost without
// Close stays in it, because the device may still use the memory.
var pins sync.Map // *runtime.Pinner → struct{}

// pin keeps buf at its address until unpin is called.
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

// register makes the region. If that fails or panics, it gives the memory back with free.
func (pd *PD) register(buf []byte, access Access, o MROptions, free func() error) (*MR, error) {
	mr := &MR{pd: pd, buf: buf[:len(buf):len(buf)], addr: iovaOf(buf, access, o.IOVA), iova: o.IOVA, length: len(buf), access: access, free: []func() error{free}}
	defer func() {
		if mr.p == nil {
			_ = free() // the caller gets the error of the registration
		}
	}()
	return makeObject(mr, &mr.handle, &mr.p, "MR", "ibv_reg_mr", fmt.Sprintf("%d bytes, %s", len(buf), rightsOf(access)),
		func() (ProviderMR, error) { return pd.p.RegMR(mr.buf, mr.addr, access) }, &pd.handle)
}

// rightsOf names rights for an error, and says so if a right to write lacks LOCAL_WRITE.
func rightsOf(access Access) string {
	if access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0 {
		return access.Name() + " without LOCAL_WRITE"
	}
	return access.Name()
}

// iovaOf returns the address of the region's first byte, for SGEs and the peer.
func iovaOf(buf []byte, access Access, chosen uint64) uint64 {
	switch {
	case chosen != 0:
		return chosen
	case access&AccessZeroBased != 0:
		return 0
	}
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf))))
}

// Bytes returns the region's memory itself, not a copy. It returns nil for a DMA-BUF. The memory may
// be read and written after Close: the device no longer uses it, and no other region gets it
// while a slice refers to it. Memory that the caller mapped for [PD.RegMR] is valid only while it
// is mapped.
func (mr *MR) Bytes() []byte { return mr.buf }

// Len returns the region's length in bytes.
func (mr *MR) Len() int { return mr.length }

// Addr returns the address of the first byte, for SGEs and for the peer. It is the memory's own
// address unless [MROptions] or [AccessZeroBased] set another.
func (mr *MR) Addr() uint64 { return mr.addr }

// Access returns the access flags of the region.
func (mr *MR) Access() Access { return mr.access }

// LKey returns the key for SGEs on this side. Rereg may change it.
func (mr *MR) LKey() uint32 { return mr.p.LKey() }

// RKey returns the key for the peer's RDMA and atomics. If the region has no remote rights, the key
// cannot be used and is 0 on some devices. Rereg may change it.
func (mr *MR) RKey() uint32 { return mr.p.RKey() }

// SGE returns an element for n bytes of the region, starting at offset off. Like a slice expression
// it panics if the bytes are not all within the region. It also panics if n needs more than 32
// bits. [MRSlice.SGE] returns an error instead.
func (mr *MR) SGE(off, n int) SGE {
	sge, err := mr.Slice(off, n).SGE()
	if err != nil {
		panic("verbs: MR.SGE: " + err.Error())
	}
	return sge
}

// String returns address, length, keys and access.
func (mr *MR) String() string {
	return fmt.Sprintf("addr %#x len %d lkey %#x rkey %#x %s", mr.Addr(), mr.Len(), mr.LKey(), mr.RKey(), mr.access.Name())
}

// Close ends the registration and unpins the memory. Slices of the memory ([MR.Bytes]) remain
// valid, also in goroutines that run meanwhile. Work requests that name the region must have
// completed; otherwise they fail. EBUSY, or EINVAL from some drivers, while memory windows are
// bound to the region: invalidate or close the windows. Closing again does nothing, with one
// exception. If the system does not take huge pages back, Close ends the registration and returns
// the error; another Close then tries again to give the pages back.
//
// Implements: int ibv_dereg_mr(struct ibv_mr *mr)
func (mr *MR) Close() error {
	if mr == nil || mr.p == nil {
		return nil
	}
	var closed func()
	err := mr.close("ibv_dereg_mr", func() error {
		if !mr.gone {
			if err := mr.p.Close(); err != nil {
				return err
			}
			mr.gone = true
		}
		if err := mr.giveBack(); err != nil {
			return err
		}
		closed, mr.onClose = mr.onClose, nil // a region that a program keeps holds no more than its memory
		return nil
	})
	if closed != nil {
		closed()
	}
	return err
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
