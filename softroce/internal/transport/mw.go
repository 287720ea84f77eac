// Memory windows: keys to parts of regions.
//
// What a window opens is an MR of its own over the region's bytes, with its key, its
// bounds and its rights, so that nothing on a packet's way knows of windows but the
// look-up by key. To bind anew and to invalidate are to close that MR.

package transport

import (
	"sync"
	"syscall"

	"github.com/rawverbs/rawverbs/verbs"
)

// MW is a memory window, of type 1 or 2B.
type MW struct {
	pd   *PD
	kind verbs.MWType

	mu     sync.Mutex
	opens  *MR    // in the table under the window's index; opens nothing if unbound
	region *MR    // that it is bound to, nil if it is not
	qp     *QP    // type 2: that it was bound on
	posted uint32 // the key of the last bind posted
	past   uint32 // the key of the last bind whose turn is over, done or not
	ahead  int    // binds posted whose turn is to come
	closed bool
}

// AllocMW makes a window that opens nothing. EINVAL for a type that there is not.
func (pd *PD) AllocMW(kind verbs.MWType) (*MW, error) {
	if kind != verbs.MWType1 && kind != verbs.MWType2 {
		return nil, syscall.EINVAL
	}
	mw := &MW{pd: pd, kind: kind}
	mw.opens = &MR{engine: pd.engine, window: mw}
	pd.engine.keys.add(mw.opens, pd.engine.random)
	mw.posted, mw.past = mw.opens.key, mw.opens.key
	return mw, nil
}

// RKey is the key of the last bind posted.
func (mw *MW) RKey() uint32 {
	mw.mu.Lock()
	defer mw.mu.Unlock()
	return mw.posted
}

// Close forgets the window, bound or not.
func (mw *MW) Close() error {
	mw.mu.Lock()
	defer mw.mu.Unlock()
	mw.closed = true
	mw.unbind()
	mw.pd.engine.keys.remove(mw.opens.key)
	return nil
}

// serves says whether the window is open to a queue pair's peer, its domain apart.
func (mw *MW) serves(qp *QP) bool {
	mw.mu.Lock()
	defer mw.mu.Unlock()
	return mw.kind == verbs.MWType1 || mw.qp == qp
}

// unbind takes the region away. The caller holds mu.
func (mw *MW) unbind() {
	_ = mw.opens.Close() // has no windows itself
	if mw.region != nil {
		mw.region.windows.Add(-1)
	}
	mw.region, mw.qp = nil, nil
}

// binding is a bind that was posted.
type binding struct {
	mw           *MW
	mr           *MR
	was, key     uint32 // before the bind and after it
	addr, length uint64
	access       verbs.Access
}

const mwAccess = remoteAccess | verbs.AccessZeroBased

// bind does a bind when its turn has come; false if the rules forbid it. Those of
// the specification are named as it names them.
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
	case mw.past != b.was: // one that was posted before, to another queue pair, is still to come
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
	return true
}

// takeBind reads the bind of a request; EINVAL for what is another device's.
func (qp *QP) takeBind(b *verbs.MWBind) (binding, error) {
	mw, isMW := b.MW.Provider().(*MW)
	mr, isMR := b.MR.Provider().(interface{ Region() *MR })
	if !isMW || !isMR || mw.pd.engine != qp.engine || mr.Region().engine != qp.engine {
		return binding{}, syscall.EINVAL
	}
	return binding{mw: mw, mr: mr.Region(), key: b.RKey, addr: b.Addr, length: b.Length, access: b.Access}, nil
}

// posts makes a bind that is taken the window's last: it goes from the key that the
// one before leaves, to the next for a window of type 1. A bind whose turn comes before
// that of one posted earlier to another queue pair fails; rdma_rxe has the same rule
// (rxe_bind_mw compares the window's key with that at the post), and the specification
// leaves the order of two queue pairs to the program.
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

// over takes note that a bind's turn is over: it was done, failed or flushed, and the bind
// posted after it may follow. The caller holds mu.
func (mw *MW) over(b *binding) {
	if b.was == mw.past {
		mw.past = b.key
	}
	if mw.ahead--; mw.ahead == 0 {
		mw.past = mw.posted // whatever order the queue pairs had them in
	}
}

// BindMW posts the bind of a type 1 window, and gives it a new key. EPERM for a
// region of another domain; else as PostSend.
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

// setBinding keeps the binding of the request that is at place i of the ring.
func (r *requester) setBinding(i uint64, b binding) {
	if r.bindings == nil {
		r.bindings = make([]binding, len(r.wqes)) // for the few that bind at all
	}
	b.mw.posts(&b)
	r.bindings[i%uint64(len(r.wqes))] = b
}

// forgetBind is for the request at place i of the ring, which will not be done.
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

// invalidate takes back what a window of type 2 opens under a key; false for a key
// that is no such window's, as is every region's, or one that another queue pair
// bound.
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
