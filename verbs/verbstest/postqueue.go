// Posting: full queues, chains, signaling, order.

package verbstest

import (
	"syscall"

	"github.com/rawverbs/rawverbs/verbs"
)

var postQueueCases = []Case{
	{"queue", "full send queue", func(e *Env) {
		a, b := e.stuck()
		granted := int(a.qp.Cap().MaxSendWR)
		wrs := make([]verbs.SendWR, granted+5)
		for i := range wrs {
			wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: a.sge(0, 8)}
		}
		e.refusedAt(a.qp.PostSend(wrs), granted, syscall.ENOMEM)
		e.refusedAt(a.qp.PostSend(wrs[:1]), 0, syscall.ENOMEM)
		b.receives(granted, 0, 8)
		for i, wc := range a.sent(granted) {
			e.success(wc, "a send")
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
		}
		b.received(granted)
		works(a, b)
	}},
	{"queue", "a place is free again after its completion", func(e *Env) {
		a, b := e.stuck()
		granted := int(a.qp.Cap().MaxSendWR)
		wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: a.sge(0, 8)}
		for range granted {
			a.post(wr)
		}
		b.receives(1, 0, 8)
		a.done()
		a.post(wr)
		e.refusedAt(a.qp.PostSend([]verbs.SendWR{wr}), 0, syscall.ENOMEM)
	}},
	{"queue", "full receive queue", func(e *Env) {
		a, b := e.rc()
		granted := int(b.qp.Cap().MaxRecvWR)
		wrs := make([]verbs.RecvWR, granted+5)
		for i := range wrs {
			wrs[i] = verbs.RecvWR{ID: uint64(i), SGL: b.sge(0, 8)}
		}
		e.refusedAt(b.qp.PostRecv(wrs), granted, syscall.ENOMEM)
		e.refusedAt(b.qp.PostRecv(wrs[:1]), 0, syscall.ENOMEM)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		a.done()
		e.check(b.got().ID == 0, "the completion is not of the first receive")
		e.ok(b.qp.PostRecv(wrs[:1]), "PostRecv after a completion")
		e.refusedAt(b.qp.PostRecv(wrs[:1]), 0, syscall.ENOMEM)
	}},
	{"queue", "chain of 16 sends", func(e *Env) {
		a, b := e.rc()
		b.receives(16, 0, 64)
		wrs := make([]verbs.SendWR, 16)
		want := a.fill(0, 16*60)
		for i := range wrs {
			wrs[i] = verbs.SendWR{ID: uint64(100 + i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: a.sge(i*60, 60)}
		}
		a.post(wrs...)
		for i, wc := range a.sent(16) {
			e.success(wc, "a send")
			e.check(wc.ID == uint64(100+i), "completion %d is of request %d", i, wc.ID)
		}
		for i, wc := range b.received(16) {
			e.success(wc, "a receive")
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
			e.same("the message", b.bytes(i*64, 60), want[i*60:][:60])
		}
	}},
	{"queue", "chain of 16 receives", func(e *Env) {
		a, b := e.rc()
		wrs := make([]verbs.RecvWR, 16)
		for i := range wrs {
			wrs[i] = verbs.RecvWR{ID: uint64(i), SGL: b.sge(i*64, 64)}
		}
		e.ok(b.qp.PostRecv(wrs), "PostRecv")
		for range 16 {
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		}
		a.sent(16)
		for i, wc := range b.received(16) {
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
		}
	}},
	{"queue", "the slices posted may be reused at once", func(e *Env) {
		a, b := e.rc()
		recv := []verbs.RecvWR{{SGL: make([]verbs.SGE, 1)}}
		for i := range 8 {
			recv[0].ID, recv[0].SGL[0] = uint64(i), b.mr.SGE(i*64, 64)
			e.ok(b.qp.PostRecv(recv), "PostRecv")
		}
		want := a.fill(0, 512)
		send := []verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: make([]verbs.SGE, 1)}}
		for i := range 8 {
			send[0].ID, send[0].SGL[0] = uint64(i), a.mr.SGE(i*64, 64)
			e.ok(a.qp.PostSend(send), "PostSend")
		}
		a.sent(8)
		b.received(8)
		e.same("the messages", b.bytes(0, 512), want)
	}},
	{"queue", "unsignaled sends do not complete", func(e *Env) {
		a, b := e.rc()
		b.receives(4, 0, 64)
		for i := range 4 {
			wr := verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, SGL: a.sge(0, 8)}
			if i == 3 {
				wr.Flags = verbs.SendSignaled
			}
			a.post(wr)
		}
		e.check(a.done().ID == 3, "the completion is not of the signaled send")
		b.received(4)
		e.quiet(a.send, "unsignaled sends")
	}},
	{"queue", "SigAll: every send completes", func(e *Env) {
		a, b := e.pair(wiring{sigAll: true})
		b.receives(4, 0, 64)
		for i := range 4 {
			a.post(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		}
		for i, wc := range a.sent(4) {
			e.check(wc.ID == uint64(i) && wc.Status == verbs.WCSuccess, "completion %d: %+v", i, wc)
		}
	}},
	{"queue", "many rounds with one send in eight signaled", func(e *Env) {
		a, b := e.rc()
		const each = 8
		for round := range 40 {
			b.receives(each, 0, 64)
			wrs := make([]verbs.SendWR, each)
			for i := range wrs {
				wrs[i] = verbs.SendWR{ID: uint64(round), Opcode: verbs.OpSend, SGL: a.sge(i, 8)}
			}
			wrs[each-1].Flags = verbs.SendSignaled
			a.post(wrs...)
			e.check(a.done().ID == uint64(round), "the completion is not of round %d", round)
			for i, wc := range b.received(each) {
				e.success(wc, "a receive")
				e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
			}
		}
	}},
	{"queue", "receives complete in the order that they were posted", func(e *Env) {
		a, b := e.rc()
		for i := range 20 {
			b.receive(uint64(i*i), b.sge(i*64, 64)...)
		}
		for i := range 20 {
			a.post(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, i)})
		}
		for i, wc := range b.received(20) {
			e.check(wc.ID == uint64(i*i) && wc.ByteLen == uint32(i) && wc.QPN == b.qp.QPN(), "completion %d: %+v", i, wc)
		}
	}},
}

// stuck returns a pair whose first end's sends wait for the whole test, because the other end
// has no receives and answers with RNR NAKs.
func (e *Env) stuck() (a, b *end) {
	return e.pair(wiring{cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}, cqDepth: 200,
		tune: func(a, b *verbs.QPAttr) { a.RNRRetry, b.MinRNRTimer = 7, 14 }})
}
