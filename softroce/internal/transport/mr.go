// Memory regions: the only way to the program's memory. A region is a slice, and
// every access is bounds-checked against it by key, domain, address and right.
// Windows are in mw.go.

package transport

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs"
)

// MR is a memory region. Its LKey and its RKey are one number, as with rxe. What a
// window opens is an MR too, of the peer's only (mw.go).
type MR struct {
	engine *Engine
	key    uint32
	window *MW // of whose bind it is, nil for a region
	gone   atomic.Bool

	// mu is held for reading while bytes of buf are touched, so that after Close
	// and Rereg nobody does.
	mu      sync.RWMutex
	pd      *PD
	base    uint64 // the virtual address of buf[0]
	access  verbs.Access
	buf     []byte
	windows atomic.Int32 // bound to it: more only with mu held for reading
}

const (
	remoteAccess = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

	// mrAccess is what a region may be asked for. Huge pages are a hint, relaxed
	// ordering is optional, and every region's pages are there on demand, so those
	// are taken and ignored.
	mrAccess = verbs.AccessLocalWrite | remoteAccess | verbs.AccessMWBind | verbs.AccessZeroBased |
		verbs.AccessOnDemand | verbs.AccessHugeTLB | verbs.AccessRelaxedOrdering | verbs.AccessFlushGlobal
)

// RegisterMR is RegisterAt under the memory's own addresses.
func (pd *PD) RegisterMR(buf []byte, access verbs.Access) (*MR, error) {
	return pd.RegisterAt(buf, addressOf(buf), access)
}

// RegisterAt makes buf known under the addresses from base on. buf must stay where
// it is until Close. EINVAL if it is empty, or if a remote right to write lacks the
// local one; EOPNOTSUPP for unknown rights, and for AccessFlushPersistent: this memory is
// lost when the power goes.
func (pd *PD) RegisterAt(buf []byte, base uint64, access verbs.Access) (*MR, error) {
	if err := checkRegion(buf, access); err != nil {
		return nil, err
	}
	mr := &MR{engine: pd.engine, pd: pd, base: base, access: access, buf: buf}
	pd.engine.keys.add(mr, pd.engine.random)
	return mr, nil
}

func checkRegion(buf []byte, access verbs.Access) error {
	if access&^mrAccess != 0 {
		return syscall.EOPNOTSUPP
	}
	if len(buf) == 0 || access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && access&verbs.AccessLocalWrite == 0 {
		return syscall.EINVAL
	}
	return nil
}

// Rereg makes the region another one under the same key. EBUSY while windows are
// bound to it.
func (mr *MR) Rereg(pd *PD, buf []byte, base uint64, access verbs.Access) error {
	if err := checkRegion(buf, access); err != nil {
		return err
	}
	mr.mu.Lock()
	defer mr.mu.Unlock()
	if mr.windows.Load() > 0 {
		return syscall.EBUSY
	}
	mr.pd, mr.buf, mr.base, mr.access = pd, buf, base, access
	return nil
}

// LKey names the region in work requests.
func (mr *MR) LKey() uint32 { return mr.key }

// RKey names the region to the peer; 0 if it has no right to it.
func (mr *MR) RKey() uint32 {
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	if mr.access&(remoteAccess|verbs.AccessFlushGlobal) == 0 {
		return 0
	}
	return mr.key
}

// Region is the region itself, for whoever has it within another object.
func (mr *MR) Region() *MR { return mr }

func (mr *MR) domain() *PD {
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	return mr.pd
}

// Addr is the address of the region's first byte: what SGEs and peers count from.
func (mr *MR) Addr() uint64 {
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	return mr.base
}

// remapped says whether the region's addresses are other than its memory's.
func (mr *MR) remapped() bool {
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	return mr.base != addressOf(mr.buf)
}

func addressOf(buf []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) }

// Close forgets the region. When it returns no byte of it is touched any more;
// work under way that needs it fails. EBUSY while windows are bound to it. Another
// Close does nothing: its key may be another region's by then.
func (mr *MR) Close() error {
	mr.mu.Lock()
	defer mr.mu.Unlock()
	if mr.windows.Load() > 0 {
		return syscall.EBUSY
	}
	if mr.gone.Swap(true) {
		return nil
	}
	mr.buf, mr.access = nil, 0
	if mr.window == nil {
		mr.engine.keys.remove(mr.key)
	}
	return nil
}

// lock gives the n bytes at addr, which stay until unlock; false, and nothing to
// unlock, if the region is not the whole of pd's, or lacks a right of need.
func (mr *MR) lock(pd *PD, addr uint64, n int, need verbs.Access) ([]byte, bool) {
	mr.mu.RLock()
	off := addr - mr.base // wraps to something large if addr is below
	if size := uint64(len(mr.buf)); mr.pd != pd || mr.access&need != need || off > size || uint64(n) > size-off {
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

// With shows f the bytes of an SGE of this domain, which stay for so long; false if
// it is not memory of a region that has the right.
func (pd *PD) With(s verbs.SGE, need verbs.Access, f func([]byte)) bool {
	mr := pd.engine.keys.find(s.LKey)
	if mr == nil || mr.window != nil {
		return false
	}
	b, ok := mr.lock(pd, s.Addr, int(s.Length), need)
	if ok {
		defer mr.unlock()
		f(b)
	}
	return ok
}

// keyTable finds regions by key: the upper 24 bits are an entry's own, the lower 8
// are a window's to change.
type keyTable struct {
	mu      sync.RWMutex
	regions map[uint32]*MR // by index
}

const keyBits = 8

// add gives a region its key.
func (t *keyTable) add(mr *MR, random func() uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		key := random()
		if index := key >> keyBits; index != 0 && t.regions[index] == nil {
			mr.key = key
			t.regions[index] = mr
			return
		}
	}
}

// replace puts what a window opens now in the place of what it opened before.
func (t *keyTable) replace(mr *MR) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.regions[mr.key>>keyBits] = mr
}

func (t *keyTable) remove(key uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.regions, key>>keyBits)
}

func (t *keyTable) find(key uint32) *MR {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if mr := t.regions[key>>keyBits]; mr != nil && mr.key == key {
		return mr
	}
	return nil
}

// local finds a region by the key of an SGE.
func (qp *QP) local(key uint32) *MR {
	if mr := qp.localMR; mr != nil && mr.key == key && !mr.gone.Load() {
		return mr
	}
	mr := qp.engine.keys.find(key)
	if mr != nil && mr.window != nil {
		mr = nil // a window is a door for the peer
	}
	qp.localMR = mr
	return mr
}

// remote finds a region, or what a window opens, by the key that the peer gave.
func (qp *QP) remote(key uint32) *MR {
	if mr := qp.resp.region; mr != nil && mr.key == key && !mr.gone.Load() {
		return mr
	}
	mr := qp.engine.keys.find(key)
	if mr != nil && mr.window != nil && !mr.window.serves(qp) {
		mr = nil
	}
	qp.resp.region = mr
	return mr
}
