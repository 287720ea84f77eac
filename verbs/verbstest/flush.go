// Flushing: after an error, all queued work completes, once and in order.

package verbstest

import (
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var flushCases = []Case{
	{"flush", "sends before the error succeed, sends after it are flushed", func(e *Env) {
		a, b := e.rc()
		b.receives(8, 0, 64)
		wrs := make([]verbs.SendWR, 8)
		for i := range wrs {
			wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: a.sge(0, 8)}
		}
		wrs[3] = a.remote(wrs[3], b, 0)
		wrs[3].Opcode, wrs[3].RKey = verbs.OpRDMAWrite, b.mr.RKey()^0x5555
		a.post(wrs...)
		for i, wc := range a.sent(8) {
			want := verbs.WCSuccess
			switch {
			case i == 3:
				want = verbs.WCRemAccessErr
			case i > 3:
				want = verbs.WCWRFlushErr
			}
			e.status("a send", wc, want)
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
		}
		for i, wc := range b.received(8) {
			want := verbs.WCSuccess
			if i >= 3 {
				want = verbs.WCWRFlushErr
			}
			e.status("a receive", wc, want)
			e.check(wc.ID == uint64(i), "completion %d is of receive %d", i, wc.ID)
		}
		e.quiet(a.send, "after the flush")
		e.quiet(b.recv, "after the flush")
	}},
	{"flush", "unsignaled sends complete too, if they fail", func(e *Env) {
		a, b := e.rc()
		wrs := make([]verbs.SendWR, 5)
		for i := range wrs {
			wrs[i] = a.remote(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 8)}, b, 0)
		}
		wrs[2].RKey ^= 0x5555
		a.post(wrs...)
		for i, wc := range a.sent(3) {
			want := verbs.WCWRFlushErr
			if i == 0 {
				want = verbs.WCRemAccessErr
			}
			e.status("a WRITE", wc, want)
			e.check(wc.ID == uint64(i+2), "completion %d is of request %d", i, wc.ID)
		}
		e.quiet(a.send, "the WRITEs that succeeded")
	}},
	{"flush", "a local error: sends before it succeed, sends after it are flushed", func(e *Env) {
		a, b := e.rc()
		b.receives(6, 0, 64)
		wrs := make([]verbs.SendWR, 6)
		for i := range wrs {
			wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: a.sge(0, 8)}
		}
		wrs[3].SGL[0].LKey ^= 0x5555
		a.post(wrs...)
		for i, wc := range a.sent(6) {
			want := verbs.WCSuccess
			switch {
			case i == 3:
				want = verbs.WCLocProtErr
			case i > 3:
				want = verbs.WCWRFlushErr
			}
			e.status("a send", wc, want)
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
		}
	}},
	{"flush", "ToError flushes both queues", func(e *Env) {
		a, _ := e.stuck()
		a.receives(20, 0, 8)
		for i := range 4 {
			a.post(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		}
		e.ok(a.machine.ToError(), "ToError")
		for i, wc := range a.sent(4) {
			e.status("a send", wc, verbs.WCWRFlushErr)
			e.check(wc.ID == uint64(i) && wc.QPN == a.qp.QPN(), "completion %d: %+v", i, wc)
		}
		for i, wc := range a.received(20) {
			e.status("a receive", wc, verbs.WCWRFlushErr)
			e.check(wc.ID == uint64(i) && wc.QPN == a.qp.QPN(), "completion %d: %+v", i, wc)
		}
		e.quiet(a.send, "after the flush")
		e.quiet(a.recv, "after the flush")
	}},
	{"flush", "after the last retry all queued work is flushed", func(e *Env) {
		a, _ := e.pair(wiring{leave: qpstate.Init, tune: impatient})
		a.receives(3, 0, 8)
		for i := range 5 {
			a.post(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		}
		wcs := a.sent(5)
		e.status("the first send", wcs[0], verbs.WCRetryExcErr)
		for i, wc := range wcs {
			e.check(i == 0 || wc.Status == verbs.WCWRFlushErr, "send %d: %v", i, wc.Status)
			e.check(wc.ID == uint64(i), "completion %d is of request %d", i, wc.ID)
		}
		for _, wc := range a.received(3) {
			e.status("a receive", wc, verbs.WCWRFlushErr)
		}
	}},
	{"flush", "posted to ERR, one by one", func(e *Env) {
		a, _ := e.rc()
		e.ok(a.machine.ToError(), "ToError")
		for i := range 20 {
			a.receive(uint64(i), a.sge(0, 8)...)
			a.post(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		}
		for i := range 20 {
			recv, send := a.received(1)[0], a.sent(1)[0]
			e.status("the receive", recv, verbs.WCWRFlushErr)
			e.status("the send", send, verbs.WCWRFlushErr)
			e.check(recv.ID == uint64(i) && send.ID == uint64(i), "round %d: receive %d, send %d", i, recv.ID, send.ID)
		}
	}},
	{"flush", "a send to a queue pair in ERR fails", func(e *Env) {
		a, b := e.pair(wiring{tune: impatient})
		e.ok(b.machine.ToError(), "ToError")
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		e.check(a.sent(1)[0].Status != verbs.WCSuccess, "a send to ERR succeeded")
	}},
	{"flush", "UC and UD: ToError flushes both queues", func(e *Env) {
		for _, typ := range []verbs.QPType{verbs.UC, verbs.UD} {
			a, b := e.pair(wiring{typ: typ})
			a.receives(5, 0, 100)
			e.ok(a.machine.ToError(), "ToError")
			a.post(a.toIf(verbs.SendWR{ID: 9, Opcode: verbs.OpSend, SGL: a.sge(0, 8)}, b))
			for i, wc := range a.received(5) {
				e.status("a receive", wc, verbs.WCWRFlushErr)
				e.check(wc.ID == uint64(i), "completion %d is of receive %d", i, wc.ID)
			}
			e.status("the send", a.sent(1)[0], verbs.WCWRFlushErr)
		}
	}},
}
