// One-sided operations: atomics, READs, path MTUs; and the order of operations.

package verbstest

import (
	"encoding/binary"
	"sync"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// Atomics use words in host byte order.
func (x *end) word(off int) uint64       { return binary.NativeEndian.Uint64(x.bytes(off, 8)) }
func (x *end) setWord(off int, v uint64) { binary.NativeEndian.PutUint64(x.bytes(off, 8), v) }

// atomic executes an atomic on the peer's word at off and returns the old value.
func (x *end) atomic(peer *end, off int, op verbs.Opcode, compareAdd, swap uint64) uint64 {
	x.setWord(0, 0x7777777777777777)
	x.signaled(x.remote(verbs.SendWR{Opcode: op, SGL: x.sge(0, 8), CompareAdd: compareAdd, Swap: swap}, peer, off))
	wc := x.done()
	want := verbs.WCFetchAdd
	if op == verbs.OpAtomicCmpAndSwp {
		want = verbs.WCCompSwap
	}
	x.e.check(wc.Opcode == want, "the completion has opcode %v", wc.Opcode)
	return x.word(0)
}

var rdmaCases = []Case{
	{"atomic", "compare and swap: equal", func(e *Env) {
		a, b := e.rc()
		b.setWord(800, 0x1122334455667788)
		found := a.atomic(b, 800, verbs.OpAtomicCmpAndSwp, 0x1122334455667788, 42)
		e.check(found == 0x1122334455667788 && b.word(800) == 42, "returned %#x, left %#x", found, b.word(800))
	}},
	{"atomic", "compare and swap: not equal", func(e *Env) {
		a, b := e.rc()
		b.setWord(800, 7)
		found := a.atomic(b, 800, verbs.OpAtomicCmpAndSwp, 8, 42)
		e.check(found == 7 && b.word(800) == 7, "returned %#x, left %#x", found, b.word(800))
	}},
	{"atomic", "fetch and add", func(e *Env) {
		a, b := e.rc()
		b.setWord(800, 1<<40)
		found := a.atomic(b, 800, verbs.OpAtomicFetchAndAdd, 5, 0)
		e.check(found == 1<<40 && b.word(800) == 1<<40+5, "returned %#x, left %#x", found, b.word(800))
	}},
	{"atomic", "fetch and add: wraps around", func(e *Env) {
		a, b := e.rc()
		b.setWord(800, ^uint64(0)-1)
		found := a.atomic(b, 800, verbs.OpAtomicFetchAndAdd, 5, 0)
		e.check(found == ^uint64(0)-1 && b.word(800) == 3, "returned %#x, left %#x", found, b.word(800))
	}},
	{"atomic", "only the word is touched", func(e *Env) {
		a, b := e.rc()
		want := b.fill(792, 24)
		a.atomic(b, 800, verbs.OpAtomicFetchAndAdd, 1, 0)
		e.same("before", b.bytes(792, 8), want[:8])
		e.same("after", b.bytes(808, 8), want[16:])
	}},
	{"atomic", "a chain of 20, in order", func(e *Env) {
		a, b := e.rc()
		for i := range 20 {
			a.signaled(a.remote(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpAtomicFetchAndAdd, SGL: a.sge(i*8, 8), CompareAdd: 3}, b, 800))
		}
		for i, wc := range a.sent(20) {
			e.success(wc, "an atomic")
			e.check(wc.ID == uint64(i) && a.word(i*8) == uint64(3*i), "atomic %d: request %d returned %d", i, wc.ID, a.word(i*8))
		}
		e.check(b.word(800) == 60, "the word is %d, want 60", b.word(800))
	}},
	{"atomic", "two queue pairs add to one word", func(e *Env) {
		a, b := e.rc()
		c, d := e.rc()
		shared, err := d.pd.RegMR(b.bytes(0, 4096), everything)
		made(e, shared, err)
		var both sync.WaitGroup
		for _, w := range []struct {
			x    *end
			rkey uint32
		}{{a, b.mr.RKey()}, {c, shared.RKey()}} {
			both.Go(func() {
				wr := verbs.SendWR{Opcode: verbs.OpAtomicFetchAndAdd, Flags: verbs.SendSignaled, SGL: w.x.sge(0, 8), RemoteAddr: b.mr.Addr() + 800, RKey: w.rkey, CompareAdd: 1}
				for range 100 {
					if err := w.x.qp.PostSend([]verbs.SendWR{wr}); err != nil {
						e.Errorf("%v", err)
						return
					}
					var wcs [1]verbs.WC
					if _, err := w.x.send.Wait(e.Ctx, wcs[:]); err != nil || wcs[0].Err() != nil {
						e.Errorf("%v, %v", err, wcs[0].Err())
						return
					}
				}
			})
		}
		both.Wait()
		e.check(b.word(800) == 200, "after 200 additions the word is %d", b.word(800))
	}},

	{"read", "into several elements", func(e *Env) {
		a, b := e.rc()
		want := b.fill(100, 6000)
		sgl := []verbs.SGE{a.mr.SGE(0, 1), a.mr.SGE(1000, 4001), a.mr.SGE(10000, 1998)}
		a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: sgl}, b, 100))
		a.done()
		e.same("the 1st element", a.bytes(0, 1), want[:1])
		e.same("the 2nd element", a.bytes(1000, 4001), want[1:4002])
		e.same("the 3rd element", a.bytes(10000, 1998), want[4002:])
	}},
	{"read", "one in flight at a time", func(e *Env) { manyReads(e, 1) }},
	{"read", "sixteen in flight", func(e *Env) { manyReads(e, 16) }},
	{"read", "both ends at once", func(e *Env) {
		a, b := e.pair(wiring{size: 400 << 10})
		fromA, fromB := a.fill(0, 200<<10), b.fill(0, 200<<10)
		a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: a.sge(200<<10, 200<<10)}, b, 0))
		b.signaled(b.remote(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: b.sge(200<<10, 200<<10)}, a, 0))
		a.done()
		b.done()
		e.same("b's memory", a.bytes(200<<10, 200<<10), fromB)
		e.same("a's memory", b.bytes(200<<10, 200<<10), fromA)
	}},

	{"mtu", "every path MTU of the port", func(e *Env) {
		for mtu := qpstate.MTU256; mtu <= e.port().ActiveMTU; mtu++ {
			a, b := e.pair(wiring{tune: func(a, b *verbs.QPAttr) { a.PathMTU, b.PathMTU = mtu, mtu }})
			n := 5*mtu.Bytes() + 3
			want := a.fill(0, n)
			b.receive(1, b.sge(0, n)...)
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, n)})
			a.done()
			b.got()
			e.same(mtu.String(), b.bytes(0, n), want)
			b.signaled(b.remote(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: b.sge(30000, n)}, a, 0))
			b.done()
			e.same(mtu.String()+" READ", b.bytes(30000, n), want)
		}
	}},
	{"psn", "wraps around at 24 bits", func(e *Env) {
		a, b := e.pair(wiring{size: 256 << 10, tune: func(a, b *verbs.QPAttr) {
			a.SQPSN, b.RQPSN, b.SQPSN, a.RQPSN = 0xfffffe, 0xfffffe, 0xffffff, 0xffffff
		}})
		n := 100 << 10
		want := a.fill(0, n)
		for range 3 {
			clear(b.mr.Bytes())
			a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, n)}, b, 0))
			a.done()
			e.same("the memory", b.bytes(0, n), want)
			b.signaled(b.remote(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: b.sge(n, n)}, a, 0))
			b.done()
			e.same("the READ", b.bytes(n, n), want)
			works(a, b)
			want = a.fill(0, n)
		}
	}},
}

func manyReads(e *Env, depth uint8) {
	depth = min(depth, uint8(e.device().MaxQPInitRdAtom), uint8(e.device().MaxQPRdAtom))
	a, b := e.pair(wiring{tune: func(a, b *verbs.QPAttr) { a.MaxRdAtomic, b.MaxDestRdAtomic = depth, depth }})
	want := b.fill(0, 60000)
	for i := range 30 {
		a.signaled(a.remote(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpRDMARead, SGL: a.sge(i*2000, 2000)}, b, i*2000))
	}
	for i, wc := range a.sent(30) {
		e.success(wc, "a READ")
		e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
	}
	e.same("the memory", a.bytes(0, 60000), want)
}

var orderCases = []Case{
	{"order", "a READ after a WRITE reads what was written", func(e *Env) {
		a, b := e.rc()
		for range 10 {
			want := a.fill(0, 10000)
			a.post(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 10000)}, b, 20000))
			a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: a.sge(30000, 10000)}, b, 20000))
			a.done()
			e.same("the memory", a.bytes(30000, 10000), want)
		}
	}},
	{"order", "a SEND after a WRITE arrives after the data", func(e *Env) {
		a, b := e.rc()
		for range 10 {
			want := a.fill(0, 10000)
			b.receives(1, 0, 8)
			a.post(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 10000)}, b, 20000),
				verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 1)})
			b.got()
			e.same("the memory", b.bytes(20000, 10000), want)
		}
	}},
	{"order", "completions of all operations are in the order of posting", func(e *Env) {
		a, b := e.rc()
		b.receives(10, 0, 64)
		want := []verbs.WCOpcode{}
		for i := range 30 {
			wr := a.remote(verbs.SendWR{ID: uint64(i), SGL: a.sge(0, 8)}, b, 8000)
			switch i % 3 {
			case 0:
				wr.Opcode, wr.SGL = verbs.OpRDMARead, a.sge(1000, 4000)
				want = append(want, verbs.WCRDMARead)
			case 1:
				wr.Opcode = verbs.OpSend
				want = append(want, verbs.WCSend)
			case 2:
				wr.Opcode = verbs.OpRDMAWrite
				want = append(want, verbs.WCRDMAWrite)
			}
			a.signaled(wr)
		}
		for i, wc := range a.sent(30) {
			e.success(wc, "a request")
			e.check(wc.ID == uint64(i) && wc.Opcode == want[i], "completion %d: %d, %v", i, wc.ID, wc.Opcode)
		}
		b.received(10)
	}},
	{"order", "fence: a SEND of what a READ fetched", func(e *Env) {
		a, b := e.rc()
		for range 10 {
			want := b.fill(30000, 20000)
			clear(a.bytes(0, 20000))
			b.receive(1, b.sge(0, 20000)...)
			a.post(a.remote(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: a.sge(0, 20000)}, b, 30000),
				verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendFence | verbs.SendSignaled, SGL: a.sge(0, 20000)})
			a.done()
			b.got()
			e.same("the message", b.bytes(0, 20000), want)
		}
	}},
	{"order", "fence: a WRITE of what an atomic returned", func(e *Env) {
		a, b := e.rc()
		for i := range 10 {
			b.setWord(800, uint64(i)+1000)
			a.setWord(0, 0)
			a.post(a.remote(verbs.SendWR{Opcode: verbs.OpAtomicFetchAndAdd, SGL: a.sge(0, 8), CompareAdd: 1}, b, 800))
			a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendFence, SGL: a.sge(0, 8)}, b, 1600))
			a.done()
			e.check(b.word(1600) == uint64(i)+1000, "the WRITE wrote %d", b.word(1600))
		}
	}},
	{"order", "both ends send at once", func(e *Env) {
		a, b := e.pair(wiring{size: 200 << 10})
		fromA, fromB := a.fill(0, 100<<10), b.fill(0, 100<<10)
		for _, x := range []*end{a, b} {
			x.receives(10, 100<<10, 10<<10)
		}
		for i := range 10 {
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(i*10<<10, 10<<10)})
			b.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: b.sge(i*10<<10, 10<<10)})
		}
		for _, x := range []*end{a, b} {
			for _, wc := range append(x.sent(10), x.received(10)...) {
				e.success(wc, "a request")
			}
		}
		e.same("a's messages", b.bytes(100<<10, 100<<10), fromA)
		e.same("b's messages", a.bytes(100<<10, 100<<10), fromB)
	}},
}
