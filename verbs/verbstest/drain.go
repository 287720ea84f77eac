// Draining the send queue (SQD): sends wait, receives go on.

package verbstest

import (
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var drainCases = []Case{
	{"drain", "started sends complete in SQD, the others after RTS", func(e *Env) {
		a, b := e.rc()
		b.receives(16, 0, 64)
		for i := range 16 {
			a.signaled(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, SGL: a.sge(0, 64)})
		}
		e.ok(a.machine.ToSQD(), "ToSQD")
		a.drained()
		e.ok(a.machine.ToRTS(a.attr), "ToRTS")
		a.signaled(verbs.SendWR{ID: 16, Opcode: verbs.OpRDMAWrite})
		for i, wc := range a.sent(17) {
			e.success(wc, "a send")
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
		}
	}},
	{"drain", "a send posted in SQD waits for RTS", func(e *Env) {
		a, b := e.drained()
		b.receives(1, 0, 64)
		want := a.fill(0, 64)
		a.signaled(verbs.SendWR{ID: 9, Opcode: verbs.OpSend, SGL: a.sge(0, 64)})
		e.quiet(a.send, "a send in SQD")
		e.quiet(b.recv, "a send in SQD")
		e.ok(a.machine.ToRTS(a.attr), "ToRTS")
		e.check(a.done().ID == 9, "another send")
		b.got()
		e.same("the message", b.bytes(0, 64), want)
	}},
	{"drain", "receives go on in SQD", func(e *Env) {
		a, b := e.drained()
		a.receives(2, 0, 64)
		want := b.fill(0, 64)
		for range 2 {
			b.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: b.sge(0, 64)})
			b.done()
			a.got()
		}
		e.same("the message", a.bytes(64, 64), want)
	}},
	{"drain", "the peer's READ is answered in SQD", func(e *Env) {
		a, b := e.drained()
		want := a.fill(0, 5000)
		b.signaled(b.remote(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: b.sge(0, 5000)}, a, 0))
		b.done()
		e.same("the memory", b.bytes(0, 5000), want)
	}},
	{"drain", "attributes change in SQD", func(e *Env) {
		a, b := e.drained()
		attr := a.attr
		attr.State, attr.Timeout, attr.RetryCnt, attr.MinRNRTimer = qpstate.SQD, 15, 3, 5
		e.ok(a.qp.Modify(&attr, qpstate.MaskState|qpstate.MaskTimeout|qpstate.MaskRetryCnt|qpstate.MaskMinRNRTimer), "SQD→SQD")
		got, err := a.qp.Query(allBits)
		e.ok(err, "Query")
		e.check(got.Timeout == 15 && got.RetryCnt == 3 && got.MinRNRTimer == 5, "got %d, %d, %d", got.Timeout, got.RetryCnt, got.MinRNRTimer)
		a.drained() // each SQD→SQD makes rdma_rxe drain again
		e.ok(a.machine.ToRTS(a.attr), "ToRTS")
		works(a, b)
	}},
	{"drain", "SQ_DRAINED for an idle queue", func(e *Env) {
		events := e.subscribe()
		a, _ := e.rc()
		e.ok(a.machine.Move(qpstate.SQD, verbs.QPAttr{EnSQDAsyncNotify: true}, qpstate.MaskEnSQDAsyncNotify), "ToSQD")
		events.about(verbs.EventSQDrained, a)
	}},
	{"drain", "SQ_DRAINED after the last completion", func(e *Env) {
		events := e.subscribe()
		for range rounds {
			a, b := e.stuck()
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 64)})
			e.quiet(a.send, "a send without a receive")
			e.ok(a.machine.Move(qpstate.SQD, verbs.QPAttr{EnSQDAsyncNotify: true}, qpstate.MaskEnSQDAsyncNotify), "ToSQD")
			e.check(len(events.ch) == 0, "an event before the send completed")
			b.receives(1, 0, 64)
			a.done()
			events.about(verbs.EventSQDrained, a)
		}
	}},
	{"drain", "SQ_DRAINING while a send is in flight", func(e *Env) {
		for range rounds {
			a, b := e.stuck()
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 64)})
			e.quiet(a.send, "a send without a receive")
			e.ok(a.machine.ToSQD(), "ToSQD")
			attr, err := a.qp.Query(qpstate.MaskState)
			e.ok(err, "Query")
			e.check(attr.State == qpstate.SQD && attr.SQDraining, "%s, draining %v", attr.State.Name(), attr.SQDraining)
			b.receives(1, 0, 64)
			a.done()
			a.drained()
		}
	}},
	{"drain", "RESET while a send is in flight", func(e *Env) {
		for range rounds {
			a, _ := e.stuck()
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 64)})
			e.quiet(a.send, "a send without a receive")
			e.ok(a.machine.ToSQD(), "ToSQD")
			e.ok(a.machine.ToReset(), "ToReset")
		}
	}},
	{"drain", "ERR while a send is in flight", func(e *Env) {
		a, _ := e.stuck()
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 64)})
		e.quiet(a.send, "a send without a receive")
		e.ok(a.machine.ToSQD(), "ToSQD")
		e.ok(a.machine.ToError(), "ToError")
		e.status("the send", a.sent(1)[0], verbs.WCWRFlushErr)
	}},
	{"drain", "to SQD and back, ten times", func(e *Env) {
		a, b := e.drained()
		for range 10 {
			e.ok(a.machine.ToRTS(a.attr), "ToRTS")
			works(a, b)
			e.ok(a.machine.ToSQD(), "ToSQD")
			a.drained()
		}
	}},
}

// rounds is how often a case that depends on timing is repeated.
const rounds = 6

// drained returns a pair whose first end is in SQD with a drained queue.
func (e *Env) drained() (a, b *end) {
	a, b = e.rc()
	e.ok(a.machine.ToSQD(), "ToSQD")
	a.drained()
	return a, b
}
