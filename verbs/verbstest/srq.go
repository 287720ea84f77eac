// Shared receive queues: their sizes, and their use by queue pairs.

package verbstest

import (
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/rawverbs/rawverbs/verbs"
)

func srqCases() []Case {
	cases := slices.Concat(srqLifeCases, srqPostCases, srqEventCases, srqResizeCases)
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		cases = append(cases,
			Case{"srq", typ.Name() + " traffic", func(e *Env) {
				a, b := e.pair(wiring{typ: typ, srq: true})
				for range 40 { // more than the SRQ holds
					works(a, b)
				}
			}},
			Case{"srq", typ.Name() + ": four queue pairs share one", func(e *Env) { share(e, typ) }},
		)
	}
	return cases
}

// share makes four queue pairs take receives from one SRQ, in the order of the messages.
func share(e *Env, typ verbs.QPType) {
	const peers, each = 4, 5
	head := 0
	if typ == verbs.UD {
		head = grhBytes
	}
	from, to := e.end(wiring{typ: typ}), e.end(wiring{typ: typ, srq: true})
	var froms, tos []*end
	for range peers {
		a, b := from.sibling(wiring{typ: typ}), to.sibling(wiring{typ: typ})
		a.attr.DestQPN, b.attr.DestQPN = b.qp.QPN(), a.qp.QPN()
		for _, x := range []*end{a, b} {
			e.ok(x.machine.ToInit(x.attr), "ToInit")
			x.toRTS()
		}
		froms, tos = append(froms, a), append(tos, b)
	}
	to.receives(peers*each, 0, 128)
	for i := range peers * each {
		a, b := froms[i%peers], tos[i%peers]
		want := a.fill(0, 20)
		a.signaled(a.toIf(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 20)}, b))
		a.done()
		wc := b.got()
		e.check(wc.ID == uint64(i) && wc.QPN == b.qp.QPN(), "message %d completed receive %d on QP %#x, want QP %#x", i, wc.ID, wc.QPN, b.qp.QPN())
		e.same("the message", b.bytes(int(wc.ID)*128+head, 20), want)
	}
}

var srqLifeCases = []Case{
	{"srq", "create and query", func(e *Env) {
		pd := e.pd()
		for _, want := range []verbs.SRQAttr{{MaxWR: 1, MaxSGE: 1}, {MaxWR: 100, MaxSGE: 2}, {MaxWR: 1000, MaxSGE: 4}} {
			got, err := e.srq(pd, want.MaxWR, want.MaxSGE).Query()
			e.ok(err, "Query")
			e.check(got.MaxWR >= want.MaxWR && got.MaxSGE >= want.MaxSGE && got.Limit == 0, "got %+v for %+v", got, want)
		}
	}},
	{"srq", "as many elements as the device allows", func(e *Env) {
		n := uint32(e.device().MaxSRQSGE)
		srq := e.srq(e.pd(), 4, n)
		got, err := srq.Query()
		e.ok(err, "Query")
		e.check(got.MaxSGE >= n, "%d elements, want %d", got.MaxSGE, n)
		e.ok(srq.PostRecv([]verbs.RecvWR{{SGL: make([]verbs.SGE, n)}}), "PostRecv")
	}},
	{"srq", "the device supports SRQs", func(e *Env) {
		a := e.device()
		e.check(a.MaxSRQ > 0 && a.MaxSRQWR > 0 && a.MaxSRQSGE > 0, "%d SRQs of %d receives of %d elements", a.MaxSRQ, a.MaxSRQWR, a.MaxSRQSGE)
	}},
	badSRQ("of no receives", func(verbs.DeviceAttr) verbs.SRQInit { return verbs.SRQInit{MaxSGE: 1} }),
	badSRQ("larger than the device", func(a verbs.DeviceAttr) verbs.SRQInit { return verbs.SRQInit{MaxWR: uint32(a.MaxSRQWR) + 1, MaxSGE: 1} }),
	badSRQ("with more elements than the device", func(a verbs.DeviceAttr) verbs.SRQInit {
		return verbs.SRQInit{MaxWR: 1, MaxSGE: uint32(a.MaxSRQSGE) + 1}
	}),
	{"srq", "close twice", func(e *Env) {
		srq := e.srq(e.pd(), 4, 1)
		e.ok(srq.Close(), "Close")
		e.ok(srq.Close(), "the second Close")
	}},
	{"srq", "use after close", func(e *Env) {
		pd, cq := e.pd(), e.cq(4)
		srq := e.srq(pd, 4, 1)
		e.ok(srq.Close(), "Close")
		e.fails(srq.PostRecv(make([]verbs.RecvWR, 1)), "PostRecv", net.ErrClosed)
		e.fails(srq.Modify(verbs.SRQAttr{}, verbs.SRQLimit), "Modify", net.ErrClosed)
		_, err := srq.Query()
		e.fails(err, "Query", net.ErrClosed)
		_, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq, Cap: defaultCap()})
		e.fails(err, "CreateQP", net.ErrClosed)
	}},
	{"srq", "close with a queue pair", func(e *Env) {
		x := e.end(wiring{srq: true})
		busy(e, x.srq.Close(), "1 QP")
		busy(e, x.pd.Close(), "1 SRQ")
		e.ok(x.qp.Close(), "Close of the queue pair")
		e.ok(x.srq.Close(), "Close")
	}},
	{"srq", "close with receives in it", func(e *Env) {
		srq := e.srq(e.pd(), 4, 1)
		e.ok(srq.PostRecv(make([]verbs.RecvWR, 3)), "PostRecv")
		e.ok(srq.Close(), "Close")
	}},
	{"srq", "64 of them", func(e *Env) {
		pd := e.pd()
		for range 64 {
			e.srq(pd, 16, 1)
		}
	}},
	{"srq", "number", func(e *Env) {
		pd := e.pd()
		first, err := e.srq(pd, 4, 1).Number()
		e.ok(err, "Number")
		second, err := e.srq(pd, 4, 1).Number()
		e.ok(err, "Number")
		e.check(first != second, "two SRQs have the number %d", first)
	}},
}

func badSRQ(name string, init func(verbs.DeviceAttr) verbs.SRQInit) Case {
	return Case{"srq", name + " is refused", func(e *Env) {
		srq, err := e.pd().CreateSRQ(init(e.device()))
		e.fails(err, "CreateSRQ", syscall.EINVAL)
		if err == nil {
			e.Cleanup(srq.Close)
		}
	}}
}

var srqPostCases = []Case{
	{"srq", "its queue pairs refuse PostRecv", func(e *Env) {
		a, b := e.pair(wiring{srq: true})
		e.refusedAt(b.qp.PostRecv(make([]verbs.RecvWR, 2)), 0, syscall.EINVAL)
		works(a, b)
	}},
	{"srq", "a chain of 16, posted before there is a queue pair", func(e *Env) {
		x := e.end(wiring{srq: true})
		wrs := make([]verbs.RecvWR, 16)
		for i := range wrs {
			wrs[i] = verbs.RecvWR{ID: uint64(100 + i), SGL: x.sge(i*64, 64)}
		}
		e.ok(x.srq.PostRecv(wrs), "PostRecv")
		clear(wrs) // the slice may be reused at once
		a, b := e.joined(x)
		for i := range 16 {
			want := a.fill(0, 64)
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 64)})
			a.done()
			e.check(b.got().ID == uint64(100+i), "receives are not taken in order")
			e.same("the message", b.bytes(i*64, 64), want)
		}
	}},
	{"srq", "full", func(e *Env) {
		a, b := e.pair(wiring{srq: true})
		attr, err := b.srq.Query()
		e.ok(err, "Query")
		granted := int(attr.MaxWR)
		wrs := make([]verbs.RecvWR, granted+5)
		for i := range wrs {
			wrs[i] = verbs.RecvWR{ID: uint64(i), SGL: b.sge(0, 8)}
		}
		e.refusedAt(b.srq.PostRecv(wrs), granted, syscall.ENOMEM)
		e.refusedAt(b.srq.PostRecv(wrs[:1]), 0, syscall.ENOMEM)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		a.done()
		e.check(b.got().ID == 0, "the completion is not of the first receive")
		e.ok(b.srq.PostRecv(wrs[:1]), "PostRecv after a completion")
		e.refusedAt(b.srq.PostRecv(wrs[:1]), 0, syscall.ENOMEM)
	}},
	{"srq", "a bad receive within a chain", func(e *Env) {
		a, b := e.pair(wiring{srq: true})
		attr, err := b.srq.Query()
		e.ok(err, "Query")
		wrs := make([]verbs.RecvWR, 4)
		for i := range wrs {
			wrs[i] = verbs.RecvWR{ID: uint64(i), SGL: b.sge(0, 8)}
		}
		wrs[2].SGL = slices.Repeat(b.sge(0, 8), int(attr.MaxSGE)+1)
		e.refusedAt(b.srq.PostRecv(wrs), 2, syscall.EINVAL, syscall.ENOMEM)
		b.receive(9, b.sge(0, 8)...)
		for _, want := range []uint64{0, 1, 9} {
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
			a.done()
			if got := b.got().ID; got != want {
				e.Errorf("receive %d was used, want %d", got, want)
			}
		}
	}},
	{"srq", "WRITE with immediate takes a receive", func(e *Env) {
		a, b := e.pair(wiring{srq: true})
		b.receives(2, 0, 64)
		want := a.fill(0, 100)
		a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Imm: 0xfeedface, SGL: a.sge(0, 100)}, b, 1000))
		a.done()
		wc := b.got()
		e.check(wc.Opcode == verbs.WCRecvRDMAWithImm && wc.Imm() == 0xfeedface && wc.ID == 0 && wc.ByteLen == 100, "%+v", wc)
		e.same("the memory", b.bytes(1000, 100), want)
	}},
	{"srq", "scatter over several elements", func(e *Env) {
		a, b := e.pair(wiring{srq: true})
		b.receive(1, b.mr.SGE(0, 10), b.mr.SGE(100, 1500), b.mr.SGE(2000, 1000))
		want := a.fill(0, 2500)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 2500)})
		a.done()
		b.got()
		e.same("the message", slices.Concat(b.bytes(0, 10), b.bytes(100, 1500), b.bytes(2000, 990)), want)
	}},
	{"srq", "empty: RNR until a receive is posted", func(e *Env) {
		a, b := e.pair(wiring{srq: true, tune: func(a, b *verbs.QPAttr) { a.RNRRetry, b.MinRNRTimer = 7, 14 }})
		want := a.fill(0, 64)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 64)})
		e.quiet(a.send, "a send without a receive")
		b.receives(1, 0, 64)
		a.done()
		b.got()
		e.same("the message", b.bytes(0, 64), want)
	}},
	{"srq", "of another domain: receives use the SRQ's domain", func(e *Env) {
		x := e.end(wiring{srq: true})
		y := e.end(wiring{})
		y.srq = x.srq
		y.recv = x.recv
		y = y.sibling(wiring{})
		a, b := e.joined(y)
		x.receive(3, x.sge(0, 64)...)
		want := a.fill(0, 64)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 64)})
		e.status("the receive", b.received(1)[0], verbs.WCSuccess)
		e.status("the send", a.sent(1)[0], verbs.WCSuccess)
		e.same("the message", x.bytes(0, 64), want)
	}},
	{"srq", "8 goroutines post to it while messages arrive", func(e *Env) {
		const goroutines, each = 8, 16
		a, b := e.pair(wiring{srq: true, cap: verbs.QPCap{MaxSendWR: goroutines * each, MaxRecvWR: goroutines * each, MaxSendSGE: 1, MaxRecvSGE: 1},
			tune: func(a, b *verbs.QPAttr) { a.RNRRetry, b.MinRNRTimer = 7, 1 }})
		var all sync.WaitGroup
		for p := range goroutines {
			all.Go(func() {
				for i := range each {
					if err := b.srq.PostRecv([]verbs.RecvWR{{ID: uint64(p*each + i), SGL: b.sge(0, 8)}}); err != nil {
						e.Errorf("%v", err)
					}
				}
			})
		}
		for range goroutines * each {
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		}
		a.sent(goroutines * each)
		all.Wait()
		seen := make(map[uint64]bool)
		for _, wc := range b.received(goroutines * each) {
			e.success(wc, "a receive")
			e.check(!seen[wc.ID], "receive %d was used twice", wc.ID)
			seen[wc.ID] = true
		}
	}},
}

// joined connects b, whose queue pair is in RESET, with a new end, which sends.
func (e *Env) joined(b *end) (from, to *end) {
	a := e.end(wiring{typ: b.qp.Type()})
	a.attr.DestQPN, b.attr.DestQPN = b.qp.QPN(), a.qp.QPN()
	for _, x := range []*end{a, b} {
		e.ok(x.machine.ToInit(x.attr), "ToInit")
		x.toRTS()
	}
	return a, b
}
