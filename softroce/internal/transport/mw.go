// Memory windows: keys that open parts of regions to the peer.
//
// A bound window is an MR of its own over the region's bytes, with its own key, bounds and
// rights. So only the look-up by key distinguishes windows from regions. Binding again and
// invalidating close that MR.
//
// A bind takes the locks of the queue pair, the window and the region, in this order.

package transport

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rawverbs/rawverbs/verbs"
)

// MW is a memory window, of type 1 or 2B.
type MW struct {
	pd   *PD
	kind verbs.MWType

	mu     sync.Mutex
	opens  *MR    // in the key table under the window's index; empty if unbound
	region *MR    // the region it is bound to, or nil
	qp     *QP    // type 2: the queue pair it was bound on
	posted uint32 // key of the last bind posted
	past   uint32 // key of the last bind executed, failed or flushed
	ahead  int    // number of binds posted and still queued
	shared *uint32
	closed bool
}

// AllocMW returns an unbound window. It returns EINVAL for an unknown type, and ENOMEM if there are MaxMW.
func (pd *PD) AllocMW(kind verbs.MWType) (*MW, error) {
	if kind != verbs.MWType1 && kind != verbs.MWType2 {
		return nil, syscall.EINVAL
	}
	mw := &MW{pd: pd, kind: kind}
	var err error
	if mw.opens, err = pd.engine.addMR(&MR{engine: pd.engine, window: mw}); err != nil {
		return nil, err
	}
	mw.posted, mw.past = mw.opens.key, mw.opens.key
	return mw, nil
}

// RKey returns the key of the last bind posted.
func (mw *MW) RKey() uint32 {
	mw.mu.Lock()
	defer mw.mu.Unlock()
	return mw.posted
}

// Share makes each bind that succeeds write its key to a variable of a program in C, until Close.
func (mw *MW) Share(rkey *uint32) {
	mw.mu.Lock()
	defer mw.mu.Unlock()
	mw.shared = rkey
}

// Close unbinds and frees the window.
func (mw *MW) Close() error {
	mw.mu.Lock()
	defer mw.mu.Unlock()
	mw.closed = true
	mw.unbind()
	mw.pd.engine.keys.remove(mw.opens.key)
	return nil
}

// serves reports whether qp's peer may use the window. It does not check the domain.
func (mw *MW) serves(qp *QP) bool {
	mw.mu.Lock()
	defer mw.mu.Unlock()
	return mw.kind == verbs.MWType1 || mw.qp == qp
}

// unbind unbinds the window from its region, if it is bound. The caller holds mu.
func (mw *MW) unbind() {
	_ = mw.opens.Close() // never EBUSY: no window is bound to it
	if mw.region != nil {
		mw.region.windows.Add(-1)
	}
	mw.region, mw.qp = nil, nil
}

// binding is a bind that was posted.
type binding struct {
	mw           *MW
	mr           *MR
	was, key     uint32 // the window's key before and after the bind
	addr, length uint64
	access       verbs.Access
}

const mwAccess = remoteAccess | verbs.AccessZeroBased

// bind executes a bind when its turn has come. It returns false if a rule forbids the bind. The
// comments name the rules of the IBTA specification.
func (qp *QP) bind(b *binding) bool {
	mw, mr := b.mw, b.mr
	mw.mu.Lock()
	defer mw.mu.Unlock()
	defer mw.over(b)
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	off, size := b.addr-mr.base, uint64(len(mr.buf))
	switch {
	case mw.closed, mw.pd != qp.pd, mr.pd != qp.pd, b.access&^mwAccess != 0:
		return false
	case mw.past != b.was: // an earlier bind, on another queue pair, is still queued
		return false
	case mw.kind == verbs.MWType2 && (mw.region != nil || b.length == 0): // o10-37.2.30, o10-37.2.40
		return false
	case mw.kind == verbs.MWType1 && b.access&verbs.AccessZeroBased != 0: // o10-36.2.2
		return false
	case b.length == 0:
	case mr.access&verbs.AccessMWBind == 0, mr.access&verbs.AccessZeroBased != 0: // C10-73
		return false
	case b.access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && mr.access&verbs.AccessLocalWrite == 0: // C10-74
		return false
	case off > size || b.length > size-off: // C10-75
		return false
	}
	mw.unbind()
	opens := &MR{engine: mw.pd.engine, window: mw, key: b.key}
	if b.length > 0 {
		opens.pd, opens.base, opens.access = mw.pd, b.addr, b.access
		if b.access&verbs.AccessZeroBased != 0 {
			opens.base = 0
		}
		opens.buf = mr.buf[off : off+b.length : off+b.length]
		mr.windows.Add(1)
		mw.region, mw.qp = mr, qp
	}
	mw.opens = opens
	mw.pd.engine.keys.replace(opens)
	if mw.shared != nil {
		atomic.StoreUint32(mw.shared, b.key)
	}
	return true
}

// takeBind reads the bind of a request. It returns EINVAL for objects of another device.
func (qp *QP) takeBind(b *verbs.MWBind) (binding, error) {
	mw, isMW := verbs.ProviderOf(b.MW).(*MW)
	mr, isMR := verbs.ProviderOf(b.MR).(interface{ Region() *MR })
	if !isMW || !isMR || mw.pd.engine != qp.engine || mr.Region().engine != qp.engine {
		return binding{}, syscall.EINVAL
	}
	return binding{mw: mw, mr: mr.Region(), key: b.RKey, addr: b.Addr, length: b.Length, access: b.Access}, nil
}

// posts makes b the last posted bind of the window. b replaces the key of the bind posted
// before. For a window of type 1, posts chooses the new key. A bind fails if its turn comes
// before that of a bind posted earlier on another queue pair. rdma_rxe has the same rule:
// rxe_bind_mw compares the window's key with the key at the time of the post. The specification
// makes the program order binds of different queue pairs.
func (mw *MW) posts(b *binding) {
	mw.mu.Lock()
	defer mw.mu.Unlock()
	b.was = mw.posted
	if mw.kind == verbs.MWType1 {
		b.key = verbs.IncRKey(b.was)
	}
	mw.posted = b.key
	mw.ahead++
}

// over notes that a bind was executed, failed or flushed, so that the bind posted after it may
// follow. The caller holds mu.
func (mw *MW) over(b *binding) {
	if b.was == mw.past {
		mw.past = b.key
	}
	if mw.ahead--; mw.ahead == 0 {
		mw.past = mw.posted // no bind is queued any more; the order of execution does not matter now
	}
}

// BindMW posts the bind of a type 1 window, which gets a new key. It returns EPERM for a region
// of another domain, and otherwise the errors of PostSend. Transmit must be called afterwards.
func (qp *QP) BindMW(id uint64, flags verbs.SendFlags, bind *verbs.MWBind) error {
	b, err := qp.takeBind(bind)
	if err != nil {
		return err
	}
	if qp.kind == verbs.UD || b.mw.kind != verbs.MWType1 || flags&verbs.SendInline != 0 {
		return syscall.EINVAL
	}
	if b.mr.domain() != b.mw.pd {
		return syscall.EPERM
	}
	qp.mu.Lock()
	defer qp.unlock()
	if err := qp.sendable(); err != nil {
		return err
	}
	w, err := qp.req.place()
	if err != nil {
		return err
	}
	*w = sendWQE{wr: verbs.SendWR{ID: id, Flags: flags, Opcode: verbs.OpBindMW, SGL: w.wr.SGL[:0]}, inline: w.inline[:0]}
	qp.req.setBinding(qp.req.tail, b)
	qp.req.tail++
	qp.posted(1)
	return nil
}

// setBinding keeps the binding of the request at index i of the ring.
func (r *requester) setBinding(i uint64, b binding) {
	if r.bindings == nil {
		r.bindings = make([]binding, len(r.wqes)) // allocated late, because few queue pairs bind
	}
	b.mw.posts(&b)
	r.bindings[i%uint64(len(r.wqes))] = b
}

// forgetBind drops the binding of the request at index i of the ring, which was flushed.
func (r *requester) forgetBind(i uint64) {
	if r.bindings == nil {
		return
	}
	if b := &r.bindings[i%uint64(len(r.wqes))]; b.mw != nil {
		b.mw.mu.Lock()
		b.mw.over(b)
		b.mw.mu.Unlock()
		*b = binding{}
	}
}

// invalidate unbinds the type 2 window that has the key. It returns false if no window of type
// 2 has the key, or if another queue pair bound the window.
func (qp *QP) invalidate(key uint32) bool {
	mr := qp.engine.keys.find(key)
	if mr == nil || mr.window == nil {
		return false
	}
	mw := mr.window
	mw.mu.Lock()
	defer mw.mu.Unlock()
	if mw.opens != mr || mw.kind != verbs.MWType2 || mw.qp != qp {
		return false
	}
	mw.unbind()
	return true
}
