// Memory regions: the only access to the program's memory. A region is a slice. Every access is
// checked by key, domain, address, length and right. Windows are in mw.go.
//
// A region's lock is held for reading while bytes are copied. Close takes it for writing, so no
// byte is accessed after Close has returned.

package transport

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs"
)

// MR is a memory region. As with rxe, its LKey and its RKey are the same number. A bound memory
// window also has an MR, which only the peer can use (mw.go).
type MR struct {
	engine *Engine
	key    uint32
	window *MW  // the window whose bind made this MR; nil for a region
	null   bool // a null region: it has no bytes, and every address is in it
	gone   atomic.Bool

	// mu is held for reading while bytes of buf are accessed. So no byte is accessed after
	// Close or Rereg.
	mu      sync.RWMutex
	pd      *PD
	base    uint64 // the virtual address of buf[0]
	access  verbs.Access
	buf     []byte
	windows atomic.Int32 // windows bound to it; incremented only with mu held for reading
}

const (
	remoteAccess = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

	// mrAccess has the rights that a region may have. Three of them are accepted and ignored:
	// huge pages are a hint, relaxed ordering is optional, and pages always come on demand.
	mrAccess = verbs.AccessLocalWrite | remoteAccess | verbs.AccessMWBind | verbs.AccessZeroBased |
		verbs.AccessOnDemand | verbs.AccessHugeTLB | verbs.AccessRelaxedOrdering | verbs.AccessFlushGlobal
)

// RegisterMR registers buf under the addresses of its memory; see RegisterAt.
func (pd *PD) RegisterMR(buf []byte, access verbs.Access) (*MR, error) {
	return pd.RegisterAt(buf, addressOf(buf), access)
}

// RegisterAt registers buf under the addresses from base on. buf must not move until Close. It
// returns EINVAL if buf is empty, or if access has a remote right to write without
// AccessLocalWrite. It returns EOPNOTSUPP for unknown rights and for AccessFlushPersistent,
// because this memory does not survive a loss of power, and ENOMEM if there are MaxMR.
func (pd *PD) RegisterAt(buf []byte, base uint64, access verbs.Access) (*MR, error) {
	if err := checkRegion(buf, access); err != nil {
		return nil, err
	}
	return pd.engine.addMR(&MR{engine: pd.engine, pd: pd, base: base, access: access, buf: buf})
}

// NullMR returns a null region. SGEs may name every address in it. Reads find zeros, and what is
// written is lost. The peer cannot use the region. It returns ENOMEM as RegisterAt does.
func (pd *PD) NullMR() (*MR, error) {
	return pd.engine.addMR(&MR{engine: pd.engine, pd: pd, access: verbs.AccessLocalWrite, null: true})
}

// addMR gives a region its key.
func (e *Engine) addMR(mr *MR) (*MR, error) {
	if err := e.keys.add(mr, e.random); err != nil {
		return nil, err
	}
	return mr, nil
}

// zeros are the bytes of null regions for one burst.
var zeros [maxBurst]byte

func checkRegion(buf []byte, access verbs.Access) error {
	if access&^mrAccess != 0 {
		return syscall.EOPNOTSUPP
	}
	if len(buf) == 0 || access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && access&verbs.AccessLocalWrite == 0 {
		return syscall.EINVAL
	}
	return nil
}

// Rereg changes the region's domain, memory, addresses and rights, and keeps its key. It
// returns EBUSY while windows are bound to the region, and EOPNOTSUPP for a null region.
func (mr *MR) Rereg(pd *PD, buf []byte, base uint64, access verbs.Access) error {
	if mr.null {
		return syscall.EOPNOTSUPP
	}
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

// LKey returns the key of the region for work requests.
func (mr *MR) LKey() uint32 { return mr.key }

// RKey returns the key of the region for the peer, or 0 if the peer has no right to it.
func (mr *MR) RKey() uint32 {
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	if mr.access&(remoteAccess|verbs.AccessFlushGlobal) == 0 {
		return 0
	}
	return mr.key
}

// Region returns mr. Types that embed an MR inherit it.
func (mr *MR) Region() *MR { return mr }

func (mr *MR) domain() *PD {
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	return mr.pd
}

// Addr returns the address of the region's first byte, for SGEs and for the peer.
func (mr *MR) Addr() uint64 {
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	return mr.base
}

// remapped reports whether the region's addresses differ from those of its memory.
func (mr *MR) remapped() bool {
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	return mr.null || mr.base != addressOf(mr.buf)
}

func addressOf(buf []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) }

// Unsent returns a queue pair that has the turn to send, or gets it, and has a request that carries bytes of the
// region; nil if there is none, or if Close would not free the region. After Close such a request fails.
func (mr *MR) Unsent() *QP {
	if mr.gone.Load() || mr.windows.Load() > 0 {
		return nil
	}
	for _, qp := range mr.engine.ready.all() {
		if qp.hasUnsent(mr.key) {
			return qp
		}
	}
	return nil
}

// Close frees the region. No byte of it is accessed after Close has returned; queued work
// requests that use it fail. Close returns EBUSY while windows are bound to the region. A
// second Close does nothing, because the key may belong to another region by then.
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

// lock returns the n bytes at addr, which are valid until unlock; nil for a null region. It returns
// false and holds no lock if the bytes are not all in the region, the region is not in pd, or need
// is not granted.
func (mr *MR) lock(pd *PD, addr uint64, n int, need verbs.Access) ([]byte, bool) {
	mr.mu.RLock()
	if mr.null && mr.pd == pd && mr.access&need == need {
		return nil, true
	}
	off := addr - mr.base // wraps to a large number if addr is below base
	if size := uint64(len(mr.buf)); mr.pd != pd || mr.access&need != need || off > size || uint64(n) > size-off {
		mr.mu.RUnlock()
		return nil, false
	}
	return mr.buf[off : off+uint64(n) : off+uint64(n)], true
}

func (mr *MR) unlock() { mr.mu.RUnlock() }

// allows reports whether lock would succeed now.
func (mr *MR) allows(pd *PD, addr uint64, n int, need verbs.Access) bool {
	_, ok := mr.lock(pd, addr, n, need)
	if ok {
		mr.unlock()
	}
	return ok
}

// With calls f with the bytes of an SGE, which are valid during the call. It returns false,
// without a call, if the SGE is not memory of a region of this domain that grants need.
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

// keyTable finds regions by key. The upper 24 bits of a key are the entry's index. Binding a
// window changes the lower 8.
type keyTable struct {
	mu      sync.RWMutex
	regions map[uint32]*MR // by index
	windows int            // entries that are windows
}

const keyBits = 8

// add chooses the region's key.
func (t *keyTable) add(mr *MR, random func() uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mr.window != nil && t.windows >= MaxMW || mr.window == nil && len(t.regions)-t.windows >= MaxMR {
		return syscall.ENOMEM
	}
	for {
		key := random()
		if index := key >> keyBits; index != 0 && t.regions[index] == nil {
			mr.key = key
			t.regions[index] = mr
			if mr.window != nil {
				t.windows++
			}
			return nil
		}
	}
}

// replace replaces the MR of a window after a bind.
func (t *keyTable) replace(mr *MR) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.regions[mr.key>>keyBits] = mr
}

func (t *keyTable) remove(key uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mr := t.regions[key>>keyBits]; mr != nil && mr.window != nil {
		t.windows--
	}
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

// local returns the region with the key of an SGE, or nil.
func (qp *QP) local(key uint32) *MR {
	if mr := qp.localMR; mr != nil && mr.key == key && !mr.gone.Load() {
		return mr
	}
	mr := qp.engine.keys.find(key)
	if mr != nil && mr.window != nil {
		mr = nil // only the peer can use a window
	}
	qp.localMR = mr
	return mr
}

// remote returns the region, or the MR of a window, with a key from the peer, or nil.
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

// touchRemote calls f with n bytes that a key of the peer names. It returns false if need is not granted for all of them, or
// if some are not mapped.
func (qp *QP) touchRemote(rkey uint32, va uint64, n int, need verbs.Access, f func([]byte)) bool {
	mr := qp.remote(rkey)
	if mr == nil {
		return false
	}
	b, ok := mr.lock(qp.pd, va, n, need)
	if !ok {
		return false
	}
	ok = touch(func() { f(b) })
	mr.unlock()
	return ok
}
