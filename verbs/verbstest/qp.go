// Queue pairs: creating, querying, modifying, closing.

package verbstest

import (
	"context"
	"net"
	"strings"
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var qpCases = []Case{
	newQP(verbs.RC), newQP(verbs.UC), newQP(verbs.UD),
	badQP("too many sends", func(d verbs.DeviceAttr, i *verbs.QPInit) { i.Cap.MaxSendWR = uint32(d.MaxQPWR) + 1 }),
	badQP("too many receives", func(d verbs.DeviceAttr, i *verbs.QPInit) { i.Cap.MaxRecvWR = uint32(d.MaxQPWR) + 1 }),
	badQP("too many elements of a send", func(d verbs.DeviceAttr, i *verbs.QPInit) { i.Cap.MaxSendSGE = uint32(d.MaxSGE) + 1 }),
	badQP("too many elements of a receive", func(d verbs.DeviceAttr, i *verbs.QPInit) { i.Cap.MaxRecvSGE = uint32(d.MaxSGE) + 1 }),
	badQP("1 GiB of inline data", func(_ verbs.DeviceAttr, i *verbs.QPInit) { i.Cap.MaxInlineData = 1 << 30 }),
	badQP("no CQs", func(_ verbs.DeviceAttr, i *verbs.QPInit) { i.SendCQ, i.RecvCQ = nil, nil }),
	badQP("type 77", func(_ verbs.DeviceAttr, i *verbs.QPInit) { i.Type = 77 }),

	{"qp", "queues of 16384, if the device allows it", func(e *Env) {
		n := uint32(min(e.device().MaxQPWR, 16384))
		cq := e.cq(4)
		e.qp(e.pd(), verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: n, MaxRecvWR: n, MaxSendSGE: 1, MaxRecvSGE: 1}})
	}},
	{"qp", "64 of them", func(e *Env) {
		pd, cq, numbers := e.pd(), e.cq(64), make(map[uint32]bool)
		for range 64 {
			qp := e.qp(pd, verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()})
			e.check(!numbers[qp.QPN()], "QPN %#x was given twice", qp.QPN())
			numbers[qp.QPN()] = true
		}
	}},
	{"qp", "close twice", func(e *Env) {
		qp := e.plainQP(verbs.RC)
		e.ok(qp.Close(), "Close")
		e.ok(qp.Close(), "the second Close")
	}},
	{"qp", "use after close", func(e *Env) {
		a, _ := e.rc()
		sge := a.sge(0, 8)
		e.ok(a.qp.Close(), "Close")
		e.fails(a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGL: sge}}), "PostSend", net.ErrClosed)
		e.fails(a.qp.PostRecv([]verbs.RecvWR{{SGL: sge}}), "PostRecv", net.ErrClosed)
		e.fails(a.machine.ToError(), "Modify", net.ErrClosed)
		_, err := a.qp.Query(qpstate.MaskState)
		e.fails(err, "Query", net.ErrClosed)
	}},
	{"qp", "close with work outstanding", func(e *Env) {
		a, b := e.pair(wiring{leave: qpstate.Init})
		a.receives(4, 0, 64)
		b.receives(4, 0, 64)
		for range 4 {
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 64)})
		}
		e.ok(a.qp.Close(), "Close")
		e.ok(a.mr.Close(), "Close of the region")
		e.ok(a.pd.Close(), "Close of the domain")
	}},
	{"qp", "query in RTS returns the attributes of the moves", func(e *Env) {
		a, b := e.pair(wiring{tune: func(a, _ *verbs.QPAttr) {
			a.Timeout, a.RetryCnt, a.RNRRetry, a.MinRNRTimer = 13, 5, 4, 11
			a.MaxRdAtomic, a.MaxDestRdAtomic = 2, 4
		}})
		got, err := a.qp.Query(allBits)
		e.ok(err, "Query")
		want := a.attr
		e.check(got.State == qpstate.RTS && got.CurState == qpstate.RTS, "state %v, current %v", got.State, got.CurState)
		for _, bit := range []qpstate.Mask{
			qpstate.MaskPathMTU, qpstate.MaskRQPSN, qpstate.MaskSQPSN, qpstate.MaskDestQPN, qpstate.MaskTimeout, qpstate.MaskRetryCnt,
			qpstate.MaskRNRRetry, qpstate.MaskMinRNRTimer, qpstate.MaskMaxRdAtomic, qpstate.MaskMaxDestRdAtomic,
			qpstate.MaskPort, qpstate.MaskPKeyIndex,
		} {
			e.check(got.Value(bit) == want.Value(bit), "%s is %s, want %s", bit.Name(), got.Value(bit), want.Value(bit))
		}
		e.check(got.Access&remoteEverything == remoteEverything, "access is %v", got.Access)
		e.check(got.AH.IsGlobal == want.AH.IsGlobal && got.AH.GRH.DGID == want.AH.GRH.DGID && got.AH.GRH.SGIDIndex == want.AH.GRH.SGIDIndex &&
			got.AH.PortNum == want.AH.PortNum, "path %v, want %v", got.AH, want.AH)
		e.check(got.Cap.MaxSendWR >= defaultDepth && got.Cap.MaxRecvWR >= defaultDepth, "cap %+v", got.Cap)
		works(a, b)
	}},
	{"qp", "query in RTS: MAX_DEST_RD_ATOMIC of 3", func(e *Env) {
		a, _ := e.pair(wiring{tune: func(a, _ *verbs.QPAttr) { a.MaxDestRdAtomic = 3 }})
		got, err := a.qp.Query(allBits)
		e.ok(err, "Query")
		e.check(got.MaxDestRdAtomic == 3, "MAX_DEST_RD_ATOMIC is %d", got.MaxDestRdAtomic)
	}},
	{"qp", "query of UD: QKEY", func(e *Env) {
		a, _ := e.pair(wiring{typ: verbs.UD})
		got, err := a.qp.Query(qpstate.MaskState | qpstate.MaskQKey | qpstate.MaskSQPSN)
		e.ok(err, "Query")
		e.check(got.State == qpstate.RTS && got.QKey == defaultQKey && got.SQPSN == a.attr.SQPSN, "%+v", got)
	}},
	{"qp", "connect again after RESET", func(e *Env) {
		a, b := e.rc()
		for range 3 {
			works(a, b)
			for _, x := range []*end{a, b} {
				e.ok(x.machine.ToReset(), "ToReset")
				e.check(x.state() == qpstate.Reset, "the queue pair is in %v", x.state())
				// Packets of the earlier connection may still arrive: use other PSNs.
				x.attr.SQPSN, x.attr.RQPSN = x.attr.SQPSN+1000, x.attr.RQPSN+1000
				e.ok(x.machine.ToInit(x.attr), "ToInit")
			}
			a.toRTS()
			b.toRTS()
		}
	}},
	{"qp", "connect again after ERR", func(e *Env) {
		a, b := e.rc()
		for _, x := range []*end{a, b} {
			x.receives(3, 0, 64)
			e.ok(x.machine.ToError(), "ToError")
			x.received(3)
			e.ok(x.machine.ToReset(), "ToReset")
			e.ok(x.machine.ToInit(x.attr), "ToInit")
		}
		a.toRTS()
		b.toRTS()
		works(a, b)
	}},
	{"qp", "RESET drops posted receives", func(e *Env) {
		x, _ := e.flusher(4)
		e.ok(x.machine.ToReset(), "ToReset")
		e.quiet(x.recv, "a queue pair after RESET")
		e.ok(x.machine.ToInit(x.attr), "ToInit")
		e.ok(x.machine.ToError(), "ToError")
		e.quiet(x.recv, "receives posted before RESET")
	}},
	{"qp", "connected to itself", func(e *Env) {
		x := e.end(wiring{})
		x.attr.DestQPN = x.qp.QPN()
		e.ok(x.machine.ToInit(x.attr), "ToInit")
		x.toRTS()
		works(x, x)
	}},
}

func newQP(typ verbs.QPType) Case {
	return Case{"qp", "create " + typ.Name(), func(e *Env) {
		qp := e.plainQP(typ)
		e.check(qp.Type() == typ && qp.QPN() > 1 && qp.QPN() < 1<<24, "%v %#x", qp.Type(), qp.QPN())
		want, got := defaultCap(), qp.Cap()
		e.check(got.MaxSendWR >= want.MaxSendWR && got.MaxRecvWR >= want.MaxRecvWR && got.MaxSendSGE >= want.MaxSendSGE &&
			got.MaxRecvSGE >= want.MaxRecvSGE && got.MaxInlineData >= want.MaxInlineData, "granted %+v, asked for %+v", got, want)
		attr, err := qp.Query(qpstate.MaskState | qpstate.MaskCap)
		e.ok(err, "Query")
		e.check(attr.State == qpstate.Reset, "the queue pair is in %v", attr.State)
	}}
}

func badQP(name string, spoil func(verbs.DeviceAttr, *verbs.QPInit)) Case {
	return Case{"qp", name + " is refused", func(e *Env) {
		cq := e.cq(4)
		init := verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()}
		spoil(e.device(), &init)
		qp, err := e.pd().CreateQP(init)
		e.fails(err, "CreateQP", syscall.EINVAL, syscall.EOPNOTSUPP, syscall.ENOMEM)
		if err == nil {
			e.Cleanup(qp.Close)
		}
	}}
}

// valueCases set one attribute to a value that no device accepts.
var valueCases = []Case{
	{"qp", "moves under a context", func(e *Env) {
		qp := e.plainQP(verbs.RC)
		ctx, cancel := context.WithCancel(e.Ctx)
		toInit := verbs.QPAttr{State: verbs.QPSInit, PortNum: onePort}
		mask := qpstate.MaskState | qpstate.MaskPort | qpstate.MaskPKeyIndex | qpstate.MaskAccessFlags
		e.ok(qp.ModifyContext(ctx, &toInit, mask), "ModifyContext")
		cancel()
		e.fails(qp.ModifyContext(ctx, &verbs.QPAttr{State: verbs.QPSErr}, qpstate.MaskState), "ModifyContext after its end", context.Canceled)
		got, err := qp.Query(qpstate.MaskState)
		e.check(err == nil && got.State == verbs.QPSInit && qp.State() == verbs.QPSInit, "the device reports %v, State %v, error %v", got.State, qp.State(), err)
	}},
	badValue("PORT 0", qpstate.Init, func(a *verbs.QPAttr) { a.PortNum = 0 }),
	badValue("PORT 9", qpstate.Init, func(a *verbs.QPAttr) { a.PortNum = 9 }),
	badValue("PKEY_INDEX 999", qpstate.Init, func(a *verbs.QPAttr) { a.PKeyIndex = 999 }),
	badValue("ACCESS_FLAGS that do not exist", qpstate.Init, func(a *verbs.QPAttr) { a.Access = 1 << 18 }),
	{"value", "ACCESS_FLAGS of a region with paging on demand", func(e *Env) {
		qp := e.plainQP(verbs.RC)
		attr := e.attr()
		attr.State, attr.Access = verbs.QPSInit, everything|verbs.AccessOnDemand
		e.ok(qp.Modify(&attr, qpstate.MaskState|qpstate.MaskPort|qpstate.MaskPKeyIndex|qpstate.MaskAccessFlags), "Modify")
	}},
	badValue("PATH_MTU 0", qpstate.RTR, func(a *verbs.QPAttr) { a.PathMTU = 0 }),
	badValue("PATH_MTU 6", qpstate.RTR, func(a *verbs.QPAttr) { a.PathMTU = 6 }),
	badValue("MIN_RNR_TIMER 32", qpstate.RTR, func(a *verbs.QPAttr) { a.MinRNRTimer = 32 }),
	badValue("MAX_DEST_RD_ATOMIC 255", qpstate.RTR, func(a *verbs.QPAttr) { a.MaxDestRdAtomic = 255 }),
	badValue("AV of another port", qpstate.RTR, func(a *verbs.QPAttr) { a.AH.PortNum = 2 }),
	badValue("AV not global on Ethernet", qpstate.RTR, func(a *verbs.QPAttr) { a.AH.IsGlobal = false }),
	badValue("AV of an empty GID slot", qpstate.RTR, func(a *verbs.QPAttr) { a.AH.GRH.SGIDIndex = 250 }),
	badValue("AV of GIDs of two families", qpstate.RTR, func(a *verbs.QPAttr) { a.AH.GRH.DGID = otherFamily(a.AH.GRH.DGID) }),
	badValue("TIMEOUT 32", qpstate.RTS, func(a *verbs.QPAttr) { a.Timeout = 32 }),
	badValue("RETRY_CNT 8", qpstate.RTS, func(a *verbs.QPAttr) { a.RetryCnt = 8 }),
	badValue("RNR_RETRY 8", qpstate.RTS, func(a *verbs.QPAttr) { a.RNRRetry = 8 }),
	badValue("MAX_QP_RD_ATOMIC 255", qpstate.RTS, func(a *verbs.QPAttr) { a.MaxRdAtomic = 255 }),
	{"value", "a state that does not exist is refused", func(e *Env) {
		for _, s := range []verbs.QPState{qpstate.Unknown, 8, 200} {
			e.fails(e.plainQP(verbs.RC).Modify(&verbs.QPAttr{State: s}, qpstate.MaskState), "Modify to "+s.Name(), syscall.EINVAL)
		}
	}},
	{"value", "a wrong CUR_STATE is refused", func(e *Env) {
		a, _ := e.rc()
		err := a.qp.Modify(&verbs.QPAttr{State: qpstate.RTS, CurState: qpstate.SQD}, qpstate.MaskState|qpstate.MaskCurState)
		e.fails(err, "RTS→RTS with CUR_STATE SQD", syscall.EINVAL)
	}},
	{"value", "PSNs count modulo 2^24", func(e *Env) {
		a, b := e.pair(wiring{tune: func(a, b *verbs.QPAttr) {
			a.SQPSN |= 0x77000000
			b.RQPSN |= 0x12000000
		}})
		works(a, b)
	}},
	{"value", "the error of a bad value names it", func(e *Env) {
		x := e.end(wiring{})
		attr := x.attr
		attr.PortNum = 9
		err := x.machine.ToInit(attr)
		e.check(err != nil && strings.Contains(err.Error(), "PORT 9"), "got %v", err)
	}},
	{"value", "a refused move changes nothing", func(e *Env) {
		x := e.end(wiring{})
		e.ok(x.machine.ToInit(x.attr), "ToInit")
		bad := x.attr
		bad.PathMTU, bad.DestQPN = 6, 0x777
		e.fails(x.machine.ToRTR(bad), "ToRTR")
		e.check(x.state() == qpstate.Init, "the queue pair is in %v", x.state())
		x.attr.DestQPN = x.qp.QPN()
		x.toRTS()
		works(x, x)
	}},
}

// badValue is a case of a move that must be refused because of one value. For paths, the errno
// depends on the device.
func badValue(name string, to verbs.QPState, spoil func(*verbs.QPAttr)) Case {
	return Case{"value", name + " is refused", func(e *Env) {
		x := e.end(wiring{})
		bad := x.attr
		bad.DestQPN = x.qp.QPN()
		x.attr.DestQPN = x.qp.QPN()
		spoil(&bad)
		for _, step := range []verbs.QPState{qpstate.Init, qpstate.RTR, qpstate.RTS} {
			if step == to {
				err := x.machine.Move(step, bad, 0)
				e.fails(err, "the move")
				return
			}
			e.ok(x.machine.Move(step, x.attr, 0), "Move")
		}
	}}
}
