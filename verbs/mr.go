// Memory regions: memory that the device may touch, and the keys to it.

package verbs

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

// MR is a registered memory region (struct ibv_mr). The device may read and
// write its memory at any time while it is open; Go code must not touch what a
// posted work request or the peer is using.
type MR struct {
	handle
	p      MRProvider
	buf    []byte
	access Access
	free   func() error // gives the memory back after the region is gone
}

// AllocOption changes how [PD.AllocMR] gets its memory.
type AllocOption func(*allocOptions)

type allocOptions struct{ hugePages bool }

// HugePages asks for the system's huge pages (vm.nr_hugepages); Linux only.
func HugePages() AllocOption { return func(o *allocOptions) { o.hugePages = true } }

// AllocMR registers size bytes of new, zeroed, page-aligned memory outside Go's
// heap (with HugePages, rounded up to whole ones: see Len). Close unmaps it: slices of it must not be used after.
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
func (pd *PD) AllocMR(size int, access Access, options ...AllocOption) (*MR, error) {
	var o allocOptions
	for _, option := range options {
		option(&o)
	}
	buf, err := mapMemory(size, o)
	if err != nil {
		e := fail("mmap", pd.device, fmt.Sprintf("%d bytes", size), err).(*Error)
		e.Hint = "a size above 0 that the machine has free"
		if o.hugePages {
			e.Hint += "; sysctl vm.nr_hugepages for huge pages"
		}
		return nil, e
	}
	mr, err := pd.register(buf, access, func() error { return unmapMemory(buf) })
	if err != nil {
		_ = unmapMemory(buf) // registration's error is the one to tell
		return nil, err
	}
	return mr, nil
}

// RegMR registers the caller's memory, which may lie on Go's heap: it is pinned
// until Close. The bytes between len(buf) and cap(buf) are not registered.
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
func (pd *PD) RegMR(buf []byte, access Access) (*MR, error) {
	if len(buf) == 0 {
		return nil, fail("ibv_reg_mr", pd.device, "0 bytes", syscall.EINVAL)
	}
	unpin := pin(buf)
	mr, err := pd.register(buf, access, unpin)
	if err != nil {
		_ = unpin() // cannot fail
		return nil, err
	}
	return mr, nil
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

func (pd *PD) register(buf []byte, access Access, free func() error) (*MR, error) {
	mr := &MR{buf: buf[:len(buf):len(buf)], access: access, free: free}
	p, err := born(&mr.handle, "MR", "ibv_reg_mr", fmt.Sprintf("%d bytes, %s", len(buf), access.Name()),
		func() (MRProvider, error) { return pd.p.RegMR(mr.buf, access) }, &pd.handle)
	if err != nil {
		return nil, err
	}
	mr.p = p
	return mr, nil
}

// Bytes is the region's memory, valid until Close.
func (mr *MR) Bytes() []byte { return mr.buf }

// Len is the region's length in bytes.
func (mr *MR) Len() int { return len(mr.buf) }

// Addr is the address of the first byte: what a peer adds its offset to.
func (mr *MR) Addr() uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mr.buf)))) }

// Access is what the region was registered for.
func (mr *MR) Access() Access { return mr.access }

// LKey is the key for this side's SGEs.
func (mr *MR) LKey() uint32 { return mr.p.LKey() }

// RKey is the key for the peer's RDMA and atomics.
func (mr *MR) RKey() uint32 { return mr.p.RKey() }

// SGE names n bytes from off. Like a slice expression it panics if they are not
// all within the region, or more than 32 bits can count.
func (mr *MR) SGE(off, n int) SGE {
	part := mr.buf[off : off+n]
	if uint64(n) > math.MaxUint32 {
		panic(fmt.Sprintf("verbs: an SGE of %d bytes: its length has 32 bits", n))
	}
	return SGE{Addr: mr.Addr() + uint64(off), Length: uint32(len(part)), LKey: mr.LKey()}
}

// String prints address, length, keys and access.
func (mr *MR) String() string {
	return fmt.Sprintf("addr %#x len %d lkey %#x rkey %#x %s", mr.Addr(), mr.Len(), mr.LKey(), mr.RKey(), mr.access.Name())
}

// Close ends the registration and gives the memory back.
//
// Implements: int ibv_dereg_mr(struct ibv_mr *mr)
func (mr *MR) Close() error {
	return mr.close("ibv_dereg_mr", func() error {
		if err := mr.p.Close(); err != nil {
			return err
		}
		return mr.free()
	})
}
