// Memory windows: what a bind grants to the peer, how it is revoked, and invalid binds.

package verbstest

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

const bindable = everything | verbs.AccessMWBind

var bothMWs = []verbs.MWType{verbs.MWType1, verbs.MWType2}

// eachMW makes a case for each of the types.
func eachMW(name string, types []verbs.MWType, run func(e *Env, t verbs.MWType)) []Case {
	var cases []Case
	for _, t := range types {
		cases = append(cases, Case{"mw", fmt.Sprintf("type %d: %s", t, name), func(e *Env) { run(e, t) }})
	}
	return cases
}

// mw returns a new window.
func (e *Env) mw(pd *verbs.PD, t verbs.MWType) *verbs.MW {
	mw, err := pd.AllocMW(t)
	return made(e, mw, err)
}

// windowed returns an RC pair and an unbound window of b's domain.
func windowed(e *Env, t verbs.MWType) (a, b *end, mw *verbs.MW) {
	a, b = e.pair(wiring{access: bindable})
	return a, b, e.mw(b.pd, t)
}

// part returns a bind of a window to n bytes of the end's region.
func (x *end) part(mw *verbs.MW, off, n int, access verbs.Access) verbs.MWBind {
	return verbs.MWBind{MW: mw, MR: x.mr, RKey: verbs.IncRKey(mw.RKey()), Addr: x.mr.Addr() + uint64(off), Length: uint64(n), Access: access}
}

// postBind posts a bind in the way that the window's type requires.
func (x *end) postBind(id uint64, b verbs.MWBind) error {
	if b.MW.Type() == verbs.MWType1 {
		return x.qp.BindMW(id, verbs.SendSignaled, b)
	}
	return x.qp.PostSend([]verbs.SendWR{{ID: id, Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: &b}})
}

// bind binds a window to bytes of the end's region.
func (x *end) bind(mw *verbs.MW, off, n int, access verbs.Access) {
	x.e.ok(x.postBind(99, x.part(mw, off, n, access)), "the bind")
	wc := x.done()
	x.e.check(wc.ID == 99 && wc.Opcode == verbs.WCBindMW, "the bind completed as %+v", wc)
}

// through sets a request's remote address and rkey.
func (x *end) through(wr verbs.SendWR, peer *end, off int, rkey uint32) verbs.SendWR {
	wr = x.remote(wr, peer, off)
	wr.RKey = rkey
	return wr
}

// opens reports a fault unless 8 bytes can be written with the key.
func opens(a, b *end, off int, rkey uint32) {
	want := a.fill(0, 8)
	a.signaled(a.through(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 8)}, b, off, rkey))
	a.done()
	a.e.same("the memory", b.bytes(off, 8), want)
}

// closed reports a fault if 8 bytes can be written with the key. The pair ends in ERR.
func closed(a, b *end, off int, rkey uint32) {
	before := slices.Clone(b.mr.Bytes())
	a.fill(0, 8)
	a.signaled(a.through(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 8)}, b, off, rkey))
	a.e.status("the WRITE", a.sent(1)[0], verbs.WCRemAccessErr)
	a.e.same("the memory", b.mr.Bytes(), before)
}

var mwCases = slices.Concat(
	eachMW("alloc", bothMWs, func(e *Env, t verbs.MWType) {
		mw := e.mw(e.pd(), t)
		e.check(mw.Type() == t && mw.RKey() != 0, "%v", mw)
	}),
	eachMW("64 of them, with different keys", bothMWs, func(e *Env, t verbs.MWType) {
		pd, keys := e.pd(), make(map[uint32]bool)
		for range 64 {
			keys[e.mw(pd, t).RKey()>>8] = true
		}
		e.check(len(keys) == 64, "%d keys", len(keys))
	}),
	eachMW("close twice", bothMWs, func(e *Env, t verbs.MWType) {
		mw := e.mw(e.pd(), t)
		e.ok(mw.Close(), "Close")
		e.ok(mw.Close(), "the second Close")
	}),
	eachMW("a domain with a window is busy", bothMWs, func(e *Env, t verbs.MWType) {
		pd := e.pd()
		mw := e.mw(pd, t)
		busy(e, pd.Close(), "1 MW")
		e.ok(mw.Close(), "Close of the window")
		e.ok(pd.Close(), "Close")
	}),
	eachMW("WRITE, READ and an atomic", bothMWs, func(e *Env, t verbs.MWType) {
		a, b, mw := windowed(e, t)
		b.bind(mw, 800, 1000, remoteEverything)
		opens(a, b, 800, mw.RKey())
		opens(a, b, 1792, mw.RKey()) // up to the last byte
		want := b.fill(800, 1000)
		a.signaled(a.through(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: a.sge(2000, 1000)}, b, 800, mw.RKey()))
		a.done()
		e.same("the READ", a.bytes(2000, 1000), want)
		b.setWord(1600, 41)
		a.signaled(a.through(verbs.SendWR{Opcode: verbs.OpAtomicFetchAndAdd, SGL: a.sge(0, 8), CompareAdd: 1}, b, 1600, mw.RKey()))
		a.done()
		e.check(a.word(0) == 41 && b.word(1600) == 42, "found %d, left %d", a.word(0), b.word(1600))
	}),
	eachMW("a WRITE of many packets", bothMWs, func(e *Env, t verbs.MWType) {
		a, b, mw := windowed(e, t)
		b.bind(mw, 100, 20000, remoteEverything)
		want := a.fill(0, 20000)
		a.signaled(a.through(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 20000)}, b, 100, mw.RKey()))
		a.done()
		e.same("the memory", b.bytes(100, 20000), want)
	}),
	eachMW("an unbound window grants nothing", bothMWs, func(e *Env, t verbs.MWType) {
		a, b, mw := windowed(e, t)
		closed(a, b, 0, mw.RKey())
	}),
	eachMW("one byte before the window", bothMWs, func(e *Env, t verbs.MWType) {
		a, b, mw := windowed(e, t)
		b.bind(mw, 800, 1000, remoteEverything)
		closed(a, b, 799, mw.RKey())
	}),
	eachMW("one byte beyond the window", bothMWs, func(e *Env, t verbs.MWType) {
		a, b, mw := windowed(e, t)
		b.bind(mw, 800, 1000, remoteEverything)
		closed(a, b, 1793, mw.RKey())
	}),
	eachMW("WRITE to a read-only window", bothMWs, func(e *Env, t verbs.MWType) {
		a, b, mw := windowed(e, t)
		b.bind(mw, 800, 1000, verbs.AccessRemoteRead)
		closed(a, b, 800, mw.RKey())
	}),
	eachMW("after a bind the old key grants nothing", bothMWs, func(e *Env, t verbs.MWType) {
		a, b, mw := windowed(e, t)
		old := mw.RKey()
		b.bind(mw, 800, 1000, remoteEverything)
		closed(a, b, 800, old)
	}),
	eachMW("a closed window grants nothing", bothMWs, func(e *Env, t verbs.MWType) {
		a, b, mw := windowed(e, t)
		b.bind(mw, 800, 1000, remoteEverything)
		opens(a, b, 800, mw.RKey())
		e.ok(mw.Close(), "Close")
		closed(a, b, 800, mw.RKey())
	}),
	eachMW("the region is busy until the window is closed", bothMWs, func(e *Env, t verbs.MWType) {
		_, b, mw := windowed(e, t)
		b.bind(mw, 800, 1000, remoteEverything)
		e.fails(b.mr.Close(), "Close of the region", syscall.EBUSY, syscall.EINVAL)
		e.ok(mw.Close(), "Close of the window")
		e.ok(b.mr.Close(), "Close of the region")
	}),
	eachMW("its key is not an lkey", bothMWs, func(e *Env, t verbs.MWType) {
		a, b, mw := windowed(e, t)
		b.bind(mw, 800, 1000, remoteEverything)
		a.receives(1, 0, 64)
		sge := b.mr.SGE(800, 8)
		sge.LKey = mw.RKey()
		b.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{sge}})
		e.status("the SEND", b.sent(1)[0], verbs.WCLocProtErr)
	}),
	eachMW("not signaled: no completion", bothMWs, func(e *Env, t verbs.MWType) {
		a, b, mw := windowed(e, t)
		bind := b.part(mw, 800, 1000, remoteEverything)
		if t == verbs.MWType1 {
			e.ok(b.qp.BindMW(1, 0, bind), "BindMW")
		} else {
			b.post(verbs.SendWR{ID: 1, Opcode: verbs.OpBindMW, Bind: &bind})
		}
		e.quiet(b.send, "the bind")
		opens(a, b, 800, mw.RKey())
	}),
	eachMW("on UC", bothMWs, func(e *Env, t verbs.MWType) {
		a, b := e.pair(wiring{typ: verbs.UC, access: bindable})
		mw := e.mw(b.pd, t)
		b.bind(mw, 800, 1000, remoteEverything)
		want := a.fill(0, 8)
		b.receive(1)
		a.signaled(a.through(verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, SGL: a.sge(0, 8)}, b, 800, mw.RKey()))
		a.done()
		b.got()
		e.same("the memory", b.bytes(800, 8), want)
	}),
	eachMW("a bind in ERR is flushed", bothMWs, func(e *Env, t verbs.MWType) {
		_, b, mw := windowed(e, t)
		e.ok(b.machine.ToError(), "ToError")
		e.ok(b.postBind(3, b.part(mw, 0, 8, remoteEverything)), "the bind")
		e.status("the bind", b.sent(1)[0], verbs.WCWRFlushErr)
	}),
	badBind("a region without MW_BIND", everything, bothMWs, nil),
	badBind("a right to write in a read-only region", verbs.AccessRemoteRead|verbs.AccessMWBind, bothMWs, nil),
	badBind("before the region", bindable, bothMWs, func(_ *end, b *verbs.MWBind) { b.Addr-- }),
	badBind("beyond the region", bindable, bothMWs, func(x *end, b *verbs.MWBind) { b.Length = uint64(x.mr.Len()) + 1 }),
	badBind("a region of another domain", bindable, bothMWs, func(x *end, b *verbs.MWBind) {
		b.MR = x.e.mr(x.e.pd(), 4096, bindable)
		b.Addr, b.Length = b.MR.Addr(), 64
	}),
	badBind("a window of another domain", bindable, bothMWs, func(x *end, b *verbs.MWBind) {
		b.MW = x.e.mw(x.e.pd(), b.MW.Type())
		b.RKey = verbs.IncRKey(b.MW.RKey())
	}),
	badBind("a local right", bindable, bothMWs, func(_ *end, b *verbs.MWBind) { b.Access |= verbs.AccessLocalWrite }),
	badBind("0 bytes", bindable, bothMWs[1:], func(_ *end, b *verbs.MWBind) { b.Length = 0 }),
	badBind("ZERO_BASED", bindable, bothMWs[:1], func(_ *end, b *verbs.MWBind) { b.Access |= verbs.AccessZeroBased }),
	mwType1Cases, mwType2Cases, mwOrderCases,
)

// badBind is a case of a bind that must be refused when it is posted, or fail when its turn
// comes.
func badBind(name string, access verbs.Access, types []verbs.MWType, spoil func(*end, *verbs.MWBind)) []Case {
	return eachMW(name+" is refused", types, func(e *Env, t verbs.MWType) {
		_, b := e.pair(wiring{access: access})
		bind := b.part(e.mw(b.pd, t), 0, 64, verbs.AccessRemoteRead)
		if access&verbs.AccessLocalWrite == 0 {
			bind.Access |= verbs.AccessRemoteWrite
		}
		if spoil != nil {
			spoil(b, &bind)
		}
		if err := b.postBind(1, bind); err != nil {
			e.fails(err, "the bind", syscall.EINVAL, syscall.EPERM, syscall.EOPNOTSUPP)
			return
		}
		e.status("the bind", b.sent(1)[0], verbs.WCMWBindErr, verbs.WCLocQPOpErr)
		b.inState(qpstate.Error)
	})
}

var mwType1Cases = []Case{
	{"mw", "a type that does not exist is refused", func(e *Env) {
		pd := e.pd()
		for _, t := range []verbs.MWType{0, 3, 77} {
			mw, err := pd.AllocMW(t)
			e.fails(err, "AllocMW of "+t.String(), syscall.EINVAL, syscall.EOPNOTSUPP)
			if err == nil {
				e.Cleanup(mw.Close)
			}
		}
	}},
	{"mw", "of a closed domain", func(e *Env) {
		pd := e.pd()
		e.ok(pd.Close(), "Close")
		_, err := pd.AllocMW(verbs.MWType1)
		e.check(err != nil, "AllocMW succeeded")
	}},
	{"mw", "type 1: bound again, the old key grants nothing", func(e *Env) {
		a, b, mw := windowed(e, verbs.MWType1)
		b.bind(mw, 0, 64, remoteEverything)
		old := mw.RKey()
		b.bind(mw, 0, 64, remoteEverything)
		e.check(mw.RKey() != old && mw.RKey()>>8 == old>>8, "key %#x became %#x", old, mw.RKey())
		opens(a, b, 0, mw.RKey())
		closed(a, b, 0, old)
	}},
	{"mw", "type 1: bound 300 times", func(e *Env) {
		a, b, mw := windowed(e, verbs.MWType1)
		var last uint32
		for i := range 300 { // the key's 8 bits wrap around
			last = mw.RKey()
			b.bind(mw, i*8, 8, remoteEverything)
		}
		opens(a, b, 299*8, mw.RKey())
		closed(a, b, 298*8, last)
	}},
	{"mw", "type 1: a bind to 0 bytes unbinds it", func(e *Env) {
		a, b, mw := windowed(e, verbs.MWType1)
		b.bind(mw, 0, 64, remoteEverything)
		opens(a, b, 0, mw.RKey())
		old := mw.RKey()
		b.bind(mw, 0, 0, 0)
		closed(a, b, 0, old)
		e.ok(b.mr.Close(), "Close of the region")
	}},
	{"mw", "type 1: serves another queue pair of the domain", func(e *Env) {
		_, b, mw := windowed(e, verbs.MWType1)
		c, d := e.pairOn(b)
		b.bind(mw, 0, 64, remoteEverything)
		opens(c, d, 0, mw.RKey())
	}},
	{"mw", "type 1: posted as a work request is refused", func(e *Env) {
		_, b, mw := windowed(e, verbs.MWType1)
		bind := b.part(mw, 0, 64, remoteEverything)
		e.refusedAt(b.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpBindMW, Bind: &bind}}), 0, syscall.EINVAL)
	}},
	{"mw", "type 1: its key cannot be invalidated", func(e *Env) {
		_, b, mw := windowed(e, verbs.MWType1)
		b.bind(mw, 0, 64, remoteEverything)
		b.signaled(verbs.SendWR{Opcode: verbs.OpLocalInv, InvalidateRKey: mw.RKey()})
		e.status("LOCAL_INV", b.sent(1)[0], verbs.WCLocQPOpErr, verbs.WCMWBindErr)
	}},
}

// pairOn returns a pair whose second end has x's objects but its own queue pair.
func (e *Env) pairOn(x *end) (c, d *end) {
	c, d = e.end(wiring{}), x.sibling(wiring{})
	c.attr, d.attr = e.attr(), e.attr()
	c.attr.DestQPN, d.attr.DestQPN = d.qp.QPN(), c.qp.QPN()
	for _, y := range []*end{c, d} {
		e.ok(y.machine.ToInit(y.attr), "ToInit")
		y.toRTS()
	}
	return c, d
}

var mwType2Cases = []Case{
	{"mw", "type 2: LOCAL_INV closes it", func(e *Env) {
		a, b, mw := windowed(e, verbs.MWType2)
		b.bind(mw, 0, 64, remoteEverything)
		opens(a, b, 0, mw.RKey())
		b.signaled(verbs.SendWR{Opcode: verbs.OpLocalInv, InvalidateRKey: mw.RKey()})
		wc := b.done()
		e.check(wc.Opcode == verbs.WCLocalInv, "the completion has opcode %v", wc.Opcode)
		e.ok(b.mr.Close(), "Close of the region")
		closed2(a, b, mw)
	}},
	{"mw", "type 2: the peer's SEND with invalidate closes it", func(e *Env) {
		a, b, mw := windowed(e, verbs.MWType2)
		b.bind(mw, 0, 64, remoteEverything)
		opens(a, b, 0, mw.RKey())
		invalidate(a, b, mw)
		e.ok(b.mr.Close(), "Close of the region")
		closed2(a, b, mw)
	}},
	{"mw", "type 2: the receive's completion has the invalidated key", func(e *Env) {
		a, b, mw := windowed(e, verbs.MWType2)
		b.bind(mw, 0, 64, remoteEverything)
		wc := invalidate(a, b, mw)
		e.check(wc.Flags&verbs.WCWithInv != 0 && wc.InvalidatedRKey() == mw.RKey(), "the completion has key %#x and flags %v", wc.InvalidatedRKey(), wc.Flags)
	}},
	{"mw", "type 2: bound, invalidated and bound again, 20 times", func(e *Env) {
		a, b, mw := windowed(e, verbs.MWType2)
		for i := range 20 {
			b.bind(mw, i*64, 64, remoteEverything)
			opens(a, b, i*64, mw.RKey())
			if i%2 == 0 {
				invalidate(a, b, mw)
				continue
			}
			b.signaled(verbs.SendWR{Opcode: verbs.OpLocalInv, InvalidateRKey: mw.RKey()})
			b.done()
		}
	}},
	{"mw", "type 2: bind and invalidate twice in one chain", func(e *Env) {
		a, b, mw := windowed(e, verbs.MWType2)
		one := b.part(mw, 0, 64, remoteEverything)
		two := one
		two.RKey = verbs.IncRKey(one.RKey)
		wrs := []verbs.SendWR{
			{ID: 0, Opcode: verbs.OpBindMW, Bind: &one},
			{ID: 1, Opcode: verbs.OpLocalInv, InvalidateRKey: one.RKey},
			{ID: 2, Opcode: verbs.OpBindMW, Bind: &two},
		}
		for i := range wrs {
			wrs[i].Flags = verbs.SendSignaled
		}
		b.post(wrs...)
		for i, wc := range b.sent(3) {
			e.success(wc, wrs[i].Opcode.String())
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
		}
		e.check(mw.RKey() == two.RKey, "the key is %#x, want %#x", mw.RKey(), two.RKey)
		opens(a, b, 0, two.RKey)
		closed(a, b, 0, one.RKey)
	}},
	{"mw", "type 2: a bind and a SEND of its key, in one chain", func(e *Env) {
		a, b, mw := windowed(e, verbs.MWType2)
		a.receives(1, 0, 64)
		bind := b.part(mw, 0, 64, remoteEverything)
		b.post(verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &bind}, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: b.sge(0, 8)})
		a.got()
		opens(a, b, 0, bind.RKey)
		b.done()
	}},
	{"mw", "type 2: a bind of a bound window is refused", func(e *Env) {
		_, b, mw := windowed(e, verbs.MWType2)
		b.bind(mw, 0, 64, remoteEverything)
		if err := b.postBind(1, b.part(mw, 64, 64, remoteEverything)); err != nil {
			e.fails(err, "the bind", syscall.EINVAL)
			return
		}
		e.status("the bind", b.sent(1)[0], verbs.WCMWBindErr)
	}},
	{"mw", "type 2: a key chosen by the program", func(e *Env) {
		a, b, mw := windowed(e, verbs.MWType2)
		bind := b.part(mw, 0, 64, remoteEverything)
		bind.RKey = mw.RKey() ^ 0xa5
		e.ok(b.postBind(1, bind), "the bind")
		b.done()
		e.check(mw.RKey() == bind.RKey, "the key is %#x", mw.RKey())
		opens(a, b, 0, bind.RKey)
	}},
	{"mw", "type 2: another window's key is refused", func(e *Env) {
		_, b, mw := windowed(e, verbs.MWType2)
		bind := b.part(mw, 0, 64, remoteEverything)
		bind.RKey ^= 0x100
		e.refusedAt(b.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpBindMW, Bind: &bind}}), 0, syscall.EINVAL)
	}},
	{"mw", "type 2: zero-based", func(e *Env) {
		a, b, mw := windowed(e, verbs.MWType2)
		b.bind(mw, 800, 64, remoteEverything|verbs.AccessZeroBased)
		want := a.fill(0, 8)
		a.signaled(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 8), RemoteAddr: 56, RKey: mw.RKey()})
		a.done()
		e.same("the memory", b.bytes(856, 8), want)
	}},
	{"mw", "type 2: does not serve another queue pair of the domain", func(e *Env) {
		_, b, mw := windowed(e, verbs.MWType2)
		c, d := e.pairOn(b)
		b.bind(mw, 0, 64, remoteEverything)
		closed(c, d, 0, mw.RKey())
	}},
	{"mw", "type 2: bound by BindMW is refused", func(e *Env) {
		_, b, mw := windowed(e, verbs.MWType2)
		e.fails(b.qp.BindMW(1, 0, b.part(mw, 0, 64, remoteEverything)), "BindMW", syscall.EINVAL)
	}},
	{"mw", "a bind without a window or a region is refused", func(e *Env) {
		_, b, mw := windowed(e, verbs.MWType2)
		gone := e.mw(b.pd, verbs.MWType2)
		ofGone := b.part(gone, 0, 64, remoteEverything)
		e.ok(gone.Close(), "Close")
		for _, bind := range []*verbs.MWBind{nil, {MW: mw, RKey: mw.RKey()}, {MR: b.mr}, &ofGone} {
			err := b.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: bind}})
			if bind != &ofGone || err != nil {
				e.refusedAt(err, 0, syscall.EINVAL)
			}
		}
		e.fails(b.qp.BindMW(1, 0, verbs.MWBind{}), "BindMW", syscall.EINVAL)
	}},
	{"mw", "a bind on UD is refused", func(e *Env) {
		x := e.pairOf(verbs.UD)
		bind := x.part(e.mw(x.pd, verbs.MWType2), 0, 64, verbs.AccessRemoteRead)
		e.refusedAt(x.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpBindMW, Bind: &bind}}), 0, syscall.EINVAL)
	}},
	{"mw", "LOCAL_INV of a region's key is refused", func(e *Env) {
		_, b, _ := windowed(e, verbs.MWType2)
		b.signaled(verbs.SendWR{Opcode: verbs.OpLocalInv, InvalidateRKey: b.mr.RKey()})
		e.status("LOCAL_INV", b.sent(1)[0], verbs.WCLocQPOpErr, verbs.WCMWBindErr)
		b.inState(qpstate.Error)
	}},
	{"mw", "SEND with invalidate of a region's key is refused", func(e *Env) {
		a, b, _ := windowed(e, verbs.MWType2)
		b.receives(1, 0, 64)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSendWithInvalidate, SGL: a.sge(0, 8), InvalidateRKey: b.mr.RKey()})
		e.status("the SEND", a.sent(1)[0], verbs.WCRemInvReqErr, verbs.WCRemAccessErr, verbs.WCRemOpErr)
		b.inState(qpstate.Error)
	}},
}

// pairOf returns one end of a pair of a type. Windows can be bound to its region.
func (e *Env) pairOf(typ verbs.QPType) *end {
	a, _ := e.pair(wiring{typ: typ, access: bindable})
	return a
}

// invalidate makes the peer's message invalidate the window's key, and returns the completion
// of that receive.
func invalidate(a, b *end, mw *verbs.MW) verbs.WC {
	b.receive(5, b.sge(30000, 64)...)
	a.signaled(verbs.SendWR{Opcode: verbs.OpSendWithInvalidate, SGL: a.sge(0, 8), InvalidateRKey: mw.RKey()})
	a.done()
	return b.got()
}

// closed2 is closed for a region that is closed itself, so that its memory cannot be compared.
func closed2(a, b *end, mw *verbs.MW) {
	a.signaled(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 8), RemoteAddr: b.mr.Addr(), RKey: mw.RKey()})
	a.e.status("the WRITE", a.sent(1)[0], verbs.WCRemAccessErr)
}
