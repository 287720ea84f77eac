// Posting by the ibv_wr_* calls. It must have the same results and the same errors as posting
// by ibv_post_send.

package verbstest

import (
	"slices"
	"syscall"

	"github.com/rawverbs/rawverbs/verbs"
)

// built returns a pair that posts by the ibv_wr_* calls.
func (e *Env) built(w wiring) (a, b *end) {
	w.path = verbs.PostWRAPI
	a, b = e.pair(w)
	e.check(a.qp.PostPath() == verbs.PostWRAPI, "the queue pair posts by %v, want PostWRAPI", a.qp.PostPath())
	return a, b
}

var builderCases = []Case{
	{"builder", "a message each way", func(e *Env) { works(e.built(wiring{})) }},
	{"builder", "a message each way on UC", func(e *Env) { works(e.built(wiring{typ: verbs.UC})) }},
	{"builder", "a datagram each way", func(e *Env) { works(e.built(wiring{typ: verbs.UD})) }},
	{"builder", "a refused send is never sent", func(e *Env) { refusedIsNotSent(e, verbs.PostWRAPI) }},
	{"builder", "one chain of every operation", func(e *Env) {
		a, b := e.built(wiring{access: bindable})
		b.receives(4, 20000, 100)
		want := a.fill(0, 1000)
		b.setWord(8000, 41)
		b.setWord(8008, 7)
		wrs := []verbs.SendWR{
			a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 1000)}, b, 4000),
			a.remote(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: a.sge(2000, 1000)}, b, 4000),
			a.remote(verbs.SendWR{Opcode: verbs.OpAtomicFetchAndAdd, SGL: a.sge(3200, 8), CompareAdd: 1}, b, 8000),
			a.remote(verbs.SendWR{Opcode: verbs.OpAtomicCmpAndSwp, SGL: a.sge(3208, 8), CompareAdd: 7, Swap: 9}, b, 8008),
			{Opcode: verbs.OpSend, SGL: a.sge(0, 100)},
			{Opcode: verbs.OpSendWithImm, Imm: imm},
			a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Imm: imm + 1, SGL: a.sge(0, 8)}, b, 9000),
			{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendFence, SGL: a.sge(0, 30)},
		}
		for i := range wrs {
			wrs[i].ID, wrs[i].Flags = uint64(i), wrs[i].Flags|verbs.SendSignaled
		}
		a.post(wrs...)
		for i, wc := range a.sent(len(wrs)) {
			e.success(wc, wrs[i].Opcode.String())
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
		}
		e.same("the WRITE", b.bytes(4000, 1000), want)
		e.same("the READ", a.bytes(2000, 1000), want)
		e.check(a.word(3200) == 41 && b.word(8000) == 42, "the addition returned %d and left %d; want 41 and 42", a.word(3200), b.word(8000))
		e.check(a.word(3208) == 7 && b.word(8008) == 9, "the swap returned %d and left %d; want 7 and 9", a.word(3208), b.word(8008))
		wcs := b.received(4)
		e.same("the SEND", b.bytes(20000, 100), want[:100])
		e.check(wcs[1].Imm() == imm && wcs[2].Imm() == imm+1, "immediates %#x, %#x", wcs[1].Imm(), wcs[2].Imm())
		e.same("the inline SEND", b.bytes(20300, 30), want[:30])
	}},
	{"builder", "several elements", func(e *Env) {
		a, b := e.built(wiring{})
		want := a.fill(0, 1000)
		a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.mr.SGE(0, 300), a.mr.SGE(300, 700)}}, b, 4000))
		a.done()
		e.same("the WRITE", b.bytes(4000, 1000), want)
	}},
	{"builder", "several elements inline", func(e *Env) {
		a, b := e.built(wiring{})
		want := a.fill(0, 30)
		a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendInline, SGL: []verbs.SGE{a.mr.SGE(0, 10), a.mr.SGE(10, 20)}}, b, 4000))
		a.done()
		e.same("the WRITE", b.bytes(4000, 30), want)
	}},
	{"builder", "bind, use and invalidate a window", func(e *Env) {
		a, b := e.built(wiring{access: bindable})
		mw := e.mw(b.pd, verbs.MWType2)
		for range 3 {
			b.bind(mw, 0, 64, remoteEverything)
			opens(a, b, 0, mw.RKey())
			invalidate(a, b, mw)
			b.bind(mw, 64, 64, remoteEverything)
			b.signaled(verbs.SendWR{Opcode: verbs.OpLocalInv, InvalidateRKey: mw.RKey()})
			b.done()
		}
	}},
	{"builder", "a bind on UC", func(e *Env) {
		_, b := e.built(wiring{typ: verbs.UC, access: bindable})
		b.bind(e.mw(b.pd, verbs.MWType2), 0, 64, remoteEverything)
	}},
	{"builder", "a bad send within a chain", func(e *Env) {
		a, b := e.built(wiring{})
		b.receives(4, 0, 64)
		wrs := make([]verbs.SendWR, 4)
		for i := range wrs {
			wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: a.sge(0, 8)}
		}
		wrs[2].SGL = slices.Repeat(a.sge(0, 8), int(a.qp.Cap().MaxSendSGE)+1)
		e.refusedAt(a.qp.PostSend(wrs), 2, syscall.EINVAL, syscall.ENOMEM)
		e.check(len(a.sent(2)) == 2 && len(b.received(2)) == 2, "the requests before the bad one were not sent")
		e.quiet(a.send, "requests after the bad one")
	}},
	{"builder", "a chain longer than the queue is refused", func(e *Env) {
		a, b := e.built(wiring{}) // a chain is accepted or refused as a whole
		n := int(a.qp.Cap().MaxSendWR)
		slow := a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: a.sge(0, 30000)}, b, 0)
		e.ok(a.qp.PostSend(slices.Repeat([]verbs.SendWR{slow}, n-1)), "PostSend")
		err := a.qp.PostSend(slices.Repeat([]verbs.SendWR{slow}, 2*n))
		e.check(err != nil, "a chain of %d requests was accepted by a queue of %d", 3*n-1, n)
		for _, wc := range a.sent(n - 1) {
			e.success(wc, "a WRITE")
		}
	}},
	{"builder", "full chains, 50 times", func(e *Env) {
		a, b := e.built(wiring{})
		n := int(a.qp.Cap().MaxSendWR)
		wr := a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: a.sge(0, 8)}, b, 0)
		for range 50 {
			a.post(slices.Repeat([]verbs.SendWR{wr}, n)...)
			for _, wc := range a.sent(n) {
				e.success(wc, "a WRITE")
			}
		}
	}},
}
