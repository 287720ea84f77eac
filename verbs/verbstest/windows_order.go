// Binds of one window on several queue pairs. Each bind replaces the key that the window had
// when the bind was posted.

package verbstest

import (
	"slices"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var mwOrderCases = slices.Concat([]Case{
	{"mw", "type 1: bound on one queue pair after the other", func(e *Env) {
		a, b, mw := windowed(e, verbs.MWType1)
		_, d := e.pairOn(b)
		b.bind(mw, 0, 64, remoteEverything)
		old := mw.RKey()
		d.bind(mw, 64, 64, remoteEverything)
		opens(a, b, 64, mw.RKey())
		closed(a, b, 0, old)
	}},
	{"mw", "type 1: a bind that overtakes an earlier one fails", func(e *Env) {
		slow := func(a, _ *verbs.QPAttr) { a.Timeout, a.RetryCnt = 16, 7 } // the READ waits 0.3 s for each answer
		a, b := e.pair(wiring{access: bindable, leave: qpstate.Init, tune: slow})
		_, d := e.pairOn(a) // its completions go to a's CQ
		mw := e.mw(a.pd, verbs.MWType1)
		a.signaled(a.remote(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMARead, SGL: a.sge(4096, 8)}, b, 0))
		e.ok(a.qp.BindMW(2, verbs.SendSignaled|verbs.SendFence, a.part(mw, 0, 64, remoteEverything)), "the bind behind the READ")
		first := mw.RKey()
		e.ok(d.qp.BindMW(3, verbs.SendSignaled, d.part(mw, 64, 64, remoteEverything)), "the other bind")
		e.check(mw.RKey() != first, "both binds have key %#x", first)
		wc := a.sent(1)[0]
		e.check(wc.ID == 3, "the first completion is %+v, want the one of the other bind", wc)
		e.status("the bind that overtook", wc, verbs.WCMWBindErr, verbs.WCLocQPOpErr)
		b.toRTS()
		for i, wc := range a.sent(2) {
			e.check(wc.ID == uint64(1+i) && wc.Status == verbs.WCSuccess, "completion %d: %+v", i, wc)
		}
		opens(b, a, 0, first)
	}},
}, eachMW("after a flushed bind the window can be bound", bothMWs, func(e *Env, t verbs.MWType) {
	_, b, mw := windowed(e, t)
	c, d := e.pairOn(b)
	e.ok(b.machine.ToError(), "ToError")
	e.ok(b.postBind(1, b.part(mw, 0, 64, remoteEverything)), "the bind")
	e.status("the bind", b.sent(1)[0], verbs.WCWRFlushErr)
	d.bind(mw, 0, 64, remoteEverything)
	opens(c, d, 0, mw.RKey())
	e.ok(mw.Close(), "Close")
}))
