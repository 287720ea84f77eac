// Retries: a peer that does not answer or has no receive, and how the requester gives up.

package verbstest

import (
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// impatient makes the first end give up after two RNR waits, or after seven tries, which take
// some 4 ms each. Fewer tries could fail because of a bad network.
func impatient(a, _ *verbs.QPAttr) { a.Timeout, a.RetryCnt, a.RNRRetry = 10, 6, 2 }

var retryCases = []Case{
	{"retry", "the peer is in RESET", func(e *Env) { noAnswer(e, func(b *end) { e.ok(b.machine.ToReset(), "ToReset") }) }},
	{"retry", "the peer is in ERR", func(e *Env) { noAnswer(e, func(b *end) { e.ok(b.machine.ToError(), "ToError") }) }},
	{"retry", "the peer is closed", func(e *Env) { noAnswer(e, func(b *end) { e.ok(b.qp.Close(), "Close") }) }},
	{"retry", "the peer is in INIT", func(e *Env) {
		a, _ := e.pair(wiring{leave: qpstate.Init, tune: impatient})
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		e.status("the send", a.sent(1)[0], verbs.WCRetryExcErr)
		a.inState(qpstate.Error)
	}},
	{"retry", "the peer expects an earlier PSN", func(e *Env) {
		a, b := e.pair(wiring{tune: func(a, b *verbs.QPAttr) {
			impatient(a, b)
			b.RQPSN = a.SQPSN - 10
		}})
		b.receives(1, 0, 64)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		e.status("the send", a.sent(1)[0], verbs.WCRetryExcErr)
		e.quiet(b.recv, "a message of a wrong PSN")
	}},
	{"retry", "the peer is of another type", func(e *Env) {
		_, uc := e.pair(wiring{typ: verbs.UC})
		uc.receives(1, 0, 64)
		a, _ := e.pair(wiring{tune: func(a, b *verbs.QPAttr) {
			impatient(a, b)
			a.DestQPN = uc.qp.QPN()
		}})
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		e.status("the send", a.sent(1)[0], verbs.WCRetryExcErr)
		e.quiet(uc.recv, "a message of RC")
	}},
	{"retry", "the peer's path MTU is smaller", func(e *Env) {
		a, b := e.pair(wiring{tune: func(_, b *verbs.QPAttr) { b.PathMTU = qpstate.MTU256 }})
		b.receives(1, 0, 2000)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 1024)})
		e.status("the send", a.sent(1)[0], verbs.WCRemInvReqErr)
	}},
	{"retry", "the send succeeds if the peer is late", func(e *Env) {
		a, b := e.pair(wiring{leave: qpstate.Init})
		b.receives(1, 0, 64)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		time.Sleep(20 * time.Millisecond)
		b.toRTS()
		a.done()
		b.got()
	}},
	{"retry", "RNR: no receive until RNR_RETRY is used up", func(e *Env) {
		a, _ := e.pair(wiring{tune: impatient})
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		e.status("the send", a.sent(1)[0], verbs.WCRNRRetryExcErr)
		a.inState(qpstate.Error)
	}},
	{"retry", "RNR: RNR_RETRY 0 gives up at once", func(e *Env) {
		a, b := e.pair(wiring{tune: func(a, b *verbs.QPAttr) { a.RNRRetry, b.MinRNRTimer = 0, 1 }})
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		e.status("the send", a.sent(1)[0], verbs.WCRNRRetryExcErr)
		e.check(b.state() == qpstate.RTS, "the peer is in %v", b.state())
	}},
	{"retry", "RNR: WRITE with immediate data needs a receive", func(e *Env) {
		a, b := e.pair(wiring{tune: impatient})
		a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, SGL: a.sge(0, 8)}, b, 0))
		e.status("the WRITE", a.sent(1)[0], verbs.WCRNRRetryExcErr)
	}},
	{"retry", "RNR: the receive is posted late", func(e *Env) {
		a, b := e.stuck()
		want := a.fill(0, 5000)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 5000)})
		e.quiet(a.send, "a send without a receive")
		b.receives(1, 0, 5000)
		a.done()
		b.got()
		e.same("the message", b.bytes(0, 5000), want)
	}},
	{"retry", "RNR: later requests wait", func(e *Env) {
		a, b := e.stuck()
		a.signaled(verbs.SendWR{ID: 0, Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		a.signaled(a.remote(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 8)}, b, 100))
		e.quiet(a.send, "requests after a send without a receive")
		b.receives(1, 0, 64)
		for i, wc := range a.sent(2) {
			e.success(wc, "a request")
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
		}
	}},
	{"retry", "RNR: a WRITE needs no receive", func(e *Env) {
		a, b := e.pair(wiring{tune: impatient})
		a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 5000)}, b, 0))
		a.done()
	}},
}

// noAnswer calls end on the peer and then sends to it.
func noAnswer(e *Env, end func(b *end)) {
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead} {
		a, b := e.pair(wiring{tune: impatient})
		wr := a.remote(verbs.SendWR{Opcode: op, SGL: a.sge(0, 8)}, b, 0)
		end(b)
		a.signaled(wr)
		e.status(opName(op), a.sent(1)[0], verbs.WCRetryExcErr)
		a.inState(qpstate.Error)
	}
}
