// Memory regions: the only way to the program's memory. A region is a slice, and
// every access is bounds-checked against it by key, domain, address and right.

package transport

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs"
)

// MR is a memory region. Its LKey and its RKey are one number, as with rxe.
type MR struct {
	pd          *PD
	key         uint32
	base        uint64 // the virtual address of buf[0]
	access      verbs.Access
	invalidable bool

	// mu is held for reading while bytes of buf are touched, so that after
	// Close nobody does.
	mu   sync.RWMutex
	buf  []byte
	gone atomic.Bool
}

const (
	remoteAccess = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

	// mrAccess is what a region may be asked for. Huge pages are a hint and
	// relaxed ordering optional, so they are taken and ignored.
	mrAccess = verbs.AccessLocalWrite | remoteAccess | verbs.AccessMWBind | verbs.AccessZeroBased |
		verbs.AccessHugeTLB | verbs.AccessRelaxedOrdering
)

// RegisterMR makes buf known, under its own addresses, or from 0 with
// AccessZeroBased. buf must stay where it is until Close. EINVAL if it is empty,
// or if a remote right to write lacks the local one; EOPNOTSUPP for unknown rights.
func (pd *PD) RegisterMR(buf []byte, access verbs.Access) (*MR, error) {
	return pd.register(buf, access, false)
}

// RegisterInvalidable is RegisterMR for a region that a LOCAL_INV, or the peer's
// SEND with invalidate, may take away. Those fail on any other region, as rxe has
// it, where only a kernel's fast registrations and memory windows may be
// invalidated.
func (pd *PD) RegisterInvalidable(buf []byte, access verbs.Access) (*MR, error) {
	return pd.register(buf, access, true)
}

func (pd *PD) register(buf []byte, access verbs.Access, invalidable bool) (*MR, error) {
	if access&^mrAccess != 0 {
		return nil, syscall.EOPNOTSUPP
	}
	if len(buf) == 0 || access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && access&verbs.AccessLocalWrite == 0 {
		return nil, syscall.EINVAL
	}
	mr := &MR{pd: pd, access: access, buf: buf, invalidable: invalidable}
	if access&verbs.AccessZeroBased == 0 {
		mr.base = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf))))
	}
	pd.engine.addMR(mr)
	return mr, nil
}

// LKey names the region in work requests.
func (mr *MR) LKey() uint32 { return mr.key }

// RKey names the region to the peer; 0 if it has no right to it.
func (mr *MR) RKey() uint32 {
	if mr.access&remoteAccess == 0 {
		return 0
	}
	return mr.key
}

// Addr is the address of the region's first byte: what SGEs and peers count from.
func (mr *MR) Addr() uint64 { return mr.base }

// Close forgets the region. When it returns no byte of it is touched any more;
// work under way that needs it fails.
func (mr *MR) Close() error {
	mr.pd.engine.keys.remove(mr)
	mr.mu.Lock()
	defer mr.mu.Unlock()
	mr.gone.Store(true)
	mr.buf = nil
	return nil
}

// lock gives the n bytes at addr, which stay until unlock; false, and nothing to
// unlock, if the region is not the whole of pd's, or lacks a right of need.
func (mr *MR) lock(pd *PD, addr uint64, n int, need verbs.Access) ([]byte, bool) {
	if mr.pd != pd || mr.access&need != need {
		return nil, false
	}
	mr.mu.RLock()
	off := addr - mr.base // wraps to something large if addr is below
	if size := uint64(len(mr.buf)); off > size || uint64(n) > size-off {
		mr.mu.RUnlock()
		return nil, false
	}
	return mr.buf[off : off+uint64(n) : off+uint64(n)], true
}

func (mr *MR) unlock() { mr.mu.RUnlock() }

// allows says whether lock would succeed now.
func (mr *MR) allows(pd *PD, addr uint64, n int, need verbs.Access) bool {
	_, ok := mr.lock(pd, addr, n, need)
	if ok {
		mr.unlock()
	}
	return ok
}

// keyTable finds regions by key.
type keyTable struct {
	mu      sync.RWMutex
	regions map[uint32]*MR
}

func (e *Engine) addMR(mr *MR) {
	t := &e.keys
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		key := e.random()
		if _, taken := t.regions[key]; !taken && key != 0 {
			mr.key = key
			t.regions[key] = mr
			return
		}
	}
}

func (t *keyTable) remove(mr *MR) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.regions[mr.key] == mr {
		delete(t.regions, mr.key)
	}
}

// region finds a region by key, first in the cache of whoever asks.
func (e *Engine) region(cache **MR, key uint32) *MR {
	if mr := *cache; mr != nil && mr.key == key && !mr.gone.Load() {
		return mr
	}
	e.keys.mu.RLock()
	mr := e.keys.regions[key]
	e.keys.mu.RUnlock()
	*cache = mr
	return mr
}

// invalidate takes a region away by key; false if it may not be.
func (e *Engine) invalidate(pd *PD, key uint32) bool {
	e.keys.mu.RLock()
	mr := e.keys.regions[key]
	e.keys.mu.RUnlock()
	if mr == nil || mr.pd != pd || !mr.invalidable {
		return false
	}
	return mr.Close() == nil
}
