// Shared receive queues: the limit, other events, and resizing.

package verbstest

import (
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

var srqEventCases = []Case{
	{"srq", "SRQ_LIMIT_REACHED: one event when fewer are left", func(e *Env) {
		events := e.subscribe()
		a, b := e.pair(wiring{srq: true})
		other := e.srq(b.pd, 4, 1)
		b.receives(6, 0, 8)
		b.limit(4)
		a.oneTo(b, 2) // 4 are left, which is not below the limit
		e.check(len(events.ofLimit()) == 0, "an event although as many receives as the limit are left")
		a.oneTo(b, 1)
		event := events.want(verbs.EventSRQLimitReached)
		e.check(b.srq.Is(event) && !other.Is(event) && !event.Fatal(), "%v does not name the SRQ", event)
		attr, err := b.srq.Query()
		e.check(err == nil && attr.Limit == 0, "the limit is still %d: %v", attr.Limit, err)
		a.oneTo(b, 3)
		e.check(len(events.ofLimit()) == 0, "a second event")
	}},
	{"srq", "the limit is armed again", func(e *Env) {
		events := e.subscribe()
		a, b := e.pair(wiring{srq: true})
		for range 3 {
			b.receives(2, 0, 8)
			b.limit(1)
			a.oneTo(b, 2)
			events.want(verbs.EventSRQLimitReached)
		}
	}},
	{"srq", "query returns the limit", func(e *Env) {
		srq := e.srq(e.pd(), 16, 1)
		for _, limit := range []uint32{7, 0, 3} {
			e.ok(srq.Modify(verbs.SRQAttr{Limit: limit}, verbs.SRQLimit), "Modify")
			attr, err := srq.Query()
			e.check(err == nil && attr.Limit == limit, "limit %d, want %d: %v", attr.Limit, limit, err)
		}
	}},
	{"srq", "a limit of 0 disarms", func(e *Env) {
		events := e.subscribe()
		a, b := e.pair(wiring{srq: true})
		b.receives(3, 0, 8)
		b.limit(3)
		b.limit(0)
		a.oneTo(b, 3)
		e.check(len(events.ofLimit()) == 0, "an event although the limit is not armed")
	}},
	{"srq", "a limit above its size is refused", func(e *Env) {
		srq := e.srq(e.pd(), 16, 1)
		attr, err := srq.Query()
		e.ok(err, "Query")
		e.fails(srq.Modify(verbs.SRQAttr{Limit: attr.MaxWR + 1}, verbs.SRQLimit), "Modify", syscall.EINVAL)
		attr, err = srq.Query()
		e.check(err == nil && attr.Limit == 0, "the limit is %d: %v", attr.Limit, err)
	}},
	{"srq", "QP_LAST_WQE_REACHED: a queue pair goes to ERR, its receives stay", func(e *Env) {
		events := e.subscribe()
		a, b := e.pair(wiring{srq: true})
		b.receives(3, 0, 64)
		a.oneTo(b, 1)
		e.ok(b.machine.ToError(), "ToError")
		events.about(verbs.EventQPLastWQEReached, b)
		e.quiet(b.recv, "flushed receives of the SRQ")
		c, d := e.joined(b.sibling(wiring{})) // another queue pair uses them
		for _, want := range []uint64{1, 2} {
			c.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: c.sge(0, 8)})
			c.done()
			if got := d.got().ID; got != want {
				e.Errorf("receive %d was used, want %d", got, want)
			}
		}
	}},
	{"srq", "QP_LAST_WQE_REACHED after the peer's error", func(e *Env) {
		events := e.subscribe()
		a, b := e.pair(wiring{srq: true})
		wr := a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 8)}, b, 0)
		wr.RKey ^= 0x5555
		a.signaled(wr)
		e.status("the WRITE", a.sent(1)[0], verbs.WCRemAccessErr)
		events.about(verbs.EventQPLastWQEReached, b)
	}},
	{"srq", "one queue pair's error does not touch the others", func(e *Env) {
		a, b := e.pair(wiring{srq: true})
		c, d := e.joined(b.sibling(wiring{}))
		b.receives(4, 0, 64)
		e.ok(b.machine.ToError(), "ToError")
		for range 4 {
			c.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: c.sge(0, 8)})
			c.done()
			e.check(d.got().QPN == d.qp.QPN(), "the completion is of another queue pair")
		}
		e.ok(a.machine.ToError(), "ToError")
	}},
}

// limit arms the limit of the end's SRQ.
func (x *end) limit(n uint32) {
	x.e.ok(x.srq.Modify(verbs.SRQAttr{Limit: n}, verbs.SRQLimit), "Modify")
}

// oneTo sends n messages, one after the other.
func (x *end) oneTo(peer *end, n int) {
	for range n {
		x.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: x.sge(0, 8)})
		x.done()
		peer.got()
	}
}

// ofLimit returns the SRQ_LIMIT_REACHED events. It waits a moment for more.
func (w *watcher) ofLimit() (found []verbs.AsyncEvent) {
	time.Sleep(quietTime)
	for len(w.ch) > 0 {
		w.seen = append(w.seen, <-w.ch)
	}
	for _, event := range w.seen {
		if event.Type == verbs.EventSRQLimitReached {
			found = append(found, event)
		}
	}
	return found
}

var srqResizeCases = []Case{
	{"srq", "resize: up, with receives in it", func(e *Env) {
		a, b := e.pair(wiring{srq: true})
		b.receives(20, 0, 64)
		a.oneTo(b, 10) // so that the ring has wrapped around
		const size = 2*defaultDepth + 6
		e.ok(b.srq.Modify(verbs.SRQAttr{MaxWR: size}, verbs.SRQMaxWR), "Modify")
		attr, err := b.srq.Query()
		e.check(err == nil && attr.MaxWR >= size, "%d receives, want %d: %v", attr.MaxWR, size, err)
		for i := range size - 10 {
			b.receive(uint64(20+i), b.sge(0, 8)...)
		}
		for i := range size {
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
			a.done()
			if got := b.got().ID; got != uint64(10+i) {
				e.Fatalf("receive %d was used, want %d", got, 10+i)
			}
		}
	}},
	{"srq", "resize: down, and up again", func(e *Env) {
		a, b := e.pair(wiring{srq: true})
		b.receives(3, 0, 64)
		for _, size := range []uint32{8, 64, 4, 100} {
			e.ok(b.srq.Modify(verbs.SRQAttr{MaxWR: size}, verbs.SRQMaxWR), "Modify")
			attr, err := b.srq.Query()
			e.check(err == nil && attr.MaxWR >= size, "%d receives, want %d: %v", attr.MaxWR, size, err)
			a.oneTo(b, 1)
			b.receives(1, 0, 64)
		}
		a.oneTo(b, 3)
	}},
	{"srq", "resize: below the receives in it is refused", func(e *Env) {
		a, b := e.pair(wiring{srq: true})
		b.receives(30, 0, 64)
		e.fails(b.srq.Modify(verbs.SRQAttr{MaxWR: 4}, verbs.SRQMaxWR), "Modify", syscall.EINVAL)
		a.oneTo(b, 30)
	}},
	{"srq", "resize: beyond the device is refused", func(e *Env) {
		srq := e.srq(e.pd(), 16, 1)
		e.fails(srq.Modify(verbs.SRQAttr{MaxWR: uint32(e.device().MaxSRQWR) + 1}, verbs.SRQMaxWR), "Modify", syscall.EINVAL)
	}},
	{"srq", "resize and limit in one Modify", func(e *Env) {
		srq := e.srq(e.pd(), 16, 1)
		e.ok(srq.Modify(verbs.SRQAttr{MaxWR: 300, Limit: 200}, verbs.SRQMaxWR|verbs.SRQLimit), "Modify")
		attr, err := srq.Query()
		e.check(err == nil && attr.MaxWR >= 300 && attr.Limit == 200, "%+v: %v", attr, err)
	}},
	{"srq", "resize while messages arrive", func(e *Env) {
		a, b := e.pair(wiring{srq: true, cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}})
		for round := range 10 {
			b.receives(32, 0, 64)
			for range 32 {
				a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
			}
			e.ok(b.srq.Modify(verbs.SRQAttr{MaxWR: uint32(64 + 64*(round%2))}, verbs.SRQMaxWR), "Modify")
			for i, wc := range b.received(32) {
				e.success(wc, "a receive")
				e.check(wc.ID == uint64(i), "completion %d is of receive %d", i, wc.ID)
			}
			a.sent(32)
		}
	}},
	{"srq", "its queue pair is moved to RESET: the receives stay", func(e *Env) {
		_, b := e.pair(wiring{srq: true})
		b.receives(2, 0, 64)
		e.ok(b.machine.ToReset(), "ToReset")
		e.quiet(b.recv, "flushed receives of the SRQ")
		c, d := e.joined(b.sibling(wiring{}))
		c.oneTo(d, 2)
	}},
}
