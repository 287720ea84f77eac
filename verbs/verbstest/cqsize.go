// Completion queues: resizing, moderation, completion vectors.

package verbstest

import (
	"sync"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var cqSizeCases = []Case{
	{"cq", "resize: up, with completions in it", func(e *Env) {
		x, n := e.flusher(20)
		e.ok(x.machine.ToError(), "ToError")
		first := x.received(5) // so that the ring has wrapped around
		x.resize(1000)
		for i, wc := range append(first, x.received(n-5)...) {
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
		}
		e.quiet(x.recv, "an emptied CQ")
	}},
	{"cq", "resize: down, with completions in it", func(e *Env) {
		x, n := e.flusher(10)
		e.ok(x.machine.ToError(), "ToError")
		x.resize(16)
		for i, wc := range x.received(n) {
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
		}
	}},
	{"cq", "resize: up, down and up", func(e *Env) {
		a, b := e.rc()
		for _, depth := range []int{500, 32, 1000, 64, 65} {
			b.resize(depth)
			a.resize(depth)
			works(a, b)
		}
	}},
	{"cq", "resize: below the completions in it is refused", func(e *Env) {
		x, n := e.flusher(20)
		e.ok(x.machine.ToError(), "ToError")
		e.quiet(x.send, "the send queue") // then all are flushed
		e.fails(x.recv.Resize(n/2), "Resize", syscall.EINVAL)
		for i, wc := range x.received(n) {
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
		}
	}},
	{"cq", "resize: to 0 is refused", func(e *Env) { e.fails(e.cq(4).Resize(0), "Resize", syscall.EINVAL) }},
	{"cq", "resize: to -1 is refused", func(e *Env) { e.fails(e.cq(4).Resize(-1), "Resize", syscall.EINVAL) }},
	{"cq", "resize: beyond the device is refused", func(e *Env) {
		e.fails(e.cq(4).Resize(e.device().MaxCQE+1), "Resize", syscall.EINVAL)
	}},
	{"cq", "resize: the new depth counts", func(e *Env) {
		events := e.subscribe()
		cq := e.cq(2)
		e.ok(cq.Resize(100), "Resize")
		cap := defaultCap()
		cap.MaxRecvWR = 90
		qp := e.qp(e.pd(), verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: cap})
		e.flushable(qp, 90)
		e.ok(qp.Modify(&verbs.QPAttr{State: qpstate.Error}, qpstate.MaskState), "Modify")
		for i, wc := range e.collect(cq, 90, "flushed receives") {
			e.check(wc.ID == uint64(i), "completion %d is of receive %d", i, wc.ID)
		}
		e.check(len(events.fatal()) == 0, "events: %v", events.seen)
	}},
	{"cq", "resize while messages arrive and others poll", func(e *Env) {
		const messages, pollers = 400, 3
		a, b := e.pair(wiring{cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 512, MaxSendSGE: 1, MaxRecvSGE: 1}, cqDepth: 600})
		for i := range messages {
			b.receive(uint64(i), b.sge(0, 8)...)
		}
		var all sync.WaitGroup
		got := e.tally(messages)
		for range pollers {
			all.Go(func() { got.gather(b.recv, func(verbs.WC) {}) })
		}
		all.Go(func() {
			for i := range 20 {
				if err := b.recv.Resize(600 + 50*(i%2)); err != nil {
					e.Errorf("Resize: %v", err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
		for range messages / 16 {
			for range 16 {
				a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
			}
			a.sent(16)
		}
		all.Wait()
		got.complete()
	}},

	{"cq", "moderation: one event for 8 completions", func(e *Env) {
		x := e.bare()
		const period = 60 * time.Millisecond
		e.ok(x.cq.Moderate(8, period), "Moderate")
		x.arm(false)
		begin := time.Now()
		for range 7 {
			x.post(0)
		}
		x.polled(7)
		early := len(x.events) > 0 && time.Now().Before(begin.Add(period))
		x.post(0)
		x.polled(1)
		x.wantEvents(1)
		e.check(!early, "an event before the eighth completion")
	}},
	{"cq", "moderation: the period ends the wait for more", func(e *Env) {
		x := e.bare()
		const period = 50 * time.Millisecond
		e.ok(x.cq.Moderate(100, period), "Moderate")
		x.arm(false)
		begin := time.Now()
		x.send(0)
		ctx, cancel := e.patient()
		defer cancel()
		select {
		case <-x.events:
			came := time.Now()
			e.check(!came.Before(begin.Add(period)), "the event arrived after %v", came.Sub(begin))
		case <-ctx.Done():
			e.Errorf("no event arrived")
		}
		x.wantEvents(0)
	}},
	{"cq", "moderation: turned off", func(e *Env) {
		x := e.bare()
		e.ok(x.cq.Moderate(100, 50*time.Millisecond), "Moderate")
		e.ok(x.cq.Moderate(0, 0), "Moderate")
		for range 3 {
			x.arm(false)
			x.send(0)
			x.wantEvents(1)
		}
	}},
	{"cq", "moderation: waiters are woken", func(e *Env) {
		a, b := e.rc()
		e.ok(b.recv.Moderate(4, 5*time.Millisecond), "Moderate")
		b.receives(9, 0, 8)
		for range 9 {
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		}
		b.received(9)
		a.sent(9)
	}},
	{"cq", "moderation: values out of range are refused", func(e *Env) {
		cq := e.cq(4)
		e.fails(cq.Moderate(-1, time.Microsecond), "Moderate", syscall.EINVAL)
		e.fails(cq.Moderate(1<<16, time.Microsecond), "Moderate", syscall.EINVAL)
		e.fails(cq.Moderate(1, -1), "Moderate", syscall.EINVAL)
		e.fails(cq.Moderate(1, time.Second), "Moderate", syscall.EINVAL)
	}},

	{"cq", "on each completion vector", func(e *Env) {
		n := e.Dev.CompVectors()
		e.check(n > 0, "%d vectors", n)
		for v := range n {
			cq, err := e.Dev.CreateCQ(verbs.CQInit{Depth: 8, Channel: e.channel(), Vector: v})
			made(e, cq, err)
			qp := e.qp(e.pd(), verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()})
			e.flushable(qp, 1)
			time.AfterFunc(testkit.Moment, func() {
				if err := qp.Modify(&verbs.QPAttr{State: qpstate.Error}, qpstate.MaskState); err != nil {
					e.Errorf("Modify: %v", err)
				}
			})
			e.collect(cq, 1, "the flushed receive")
		}
	}},
	badCQ("the first vector beyond the device's", func(e *Env) verbs.CQInit { return verbs.CQInit{Depth: 1, Vector: e.Dev.CompVectors()} }),
	badCQ("vector -2", func(*Env) verbs.CQInit { return verbs.CQInit{Depth: 1, Vector: verbs.AnyVector - 1} }),
}

// resize changes the depth of the end's receive CQ.
func (x *end) resize(depth int) {
	x.e.ok(x.recv.Resize(depth), "Resize")
	x.e.check(x.recv.Depth() >= depth, "the depth is %d, asked for %d", x.recv.Depth(), depth)
}
