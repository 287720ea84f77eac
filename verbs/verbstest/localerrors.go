// Errors that the requester finds itself, in its own memory.

package verbstest

import (
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var localErrorCases = []Case{
	localError("SEND with a wrong lkey", verbs.OpSend, func(_ *end, s *verbs.SGE) { s.LKey ^= 0x5555 }),
	localError("WRITE with a wrong lkey", verbs.OpRDMAWrite, func(_ *end, s *verbs.SGE) { s.LKey ^= 0x5555 }),
	localError("READ into a wrong lkey", verbs.OpRDMARead, func(_ *end, s *verbs.SGE) { s.LKey ^= 0x5555 }),
	localError("an atomic into a wrong lkey", verbs.OpAtomicFetchAndAdd, func(_ *end, s *verbs.SGE) { s.LKey ^= 0x5555 }),
	localError("SEND from beyond the region", verbs.OpSend, func(a *end, s *verbs.SGE) { s.Addr = a.mr.Addr() + uint64(a.mr.Len()) - 4 }),
	localError("SEND from before the region", verbs.OpSend, func(a *end, s *verbs.SGE) { s.Addr = a.mr.Addr() - 4 }),
	localError("SEND from the end of the address space", verbs.OpSend, func(_ *end, s *verbs.SGE) { s.Addr = ^uint64(3) }),
	localError("READ into beyond the region", verbs.OpRDMARead, func(a *end, s *verbs.SGE) { s.Addr = a.mr.Addr() + uint64(a.mr.Len()) - 4 }),
	localError("SEND from a region of another domain", verbs.OpSend, func(a *end, s *verbs.SGE) { *s = a.e.mr(a.e.pd(), 64, everything).SGE(0, 8) }),
	localError("READ into a region of another domain", verbs.OpRDMARead, func(a *end, s *verbs.SGE) { *s = a.e.mr(a.e.pd(), 64, everything).SGE(0, 8) }),
	localError("READ into a region without LOCAL_WRITE", verbs.OpRDMARead, func(a *end, s *verbs.SGE) { *s = a.e.mr(a.pd, 64, verbs.AccessRemoteRead).SGE(0, 8) }),
	localError("an atomic into a region without LOCAL_WRITE", verbs.OpAtomicFetchAndAdd, func(a *end, s *verbs.SGE) { *s = a.e.mr(a.pd, 64, 0).SGE(0, 8) }),
	{"local error", "SEND from a region without rights is no error", func(e *Env) {
		a, b := e.rc()
		b.receives(1, 0, 64)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{e.mr(a.pd, 64, 0).SGE(0, 64)}})
		a.done()
		b.got()
	}},
	{"local error", "UC: the send queue stops, the receives go on", func(e *Env) { sendQueueError(e, verbs.UC) }},
	{"local error", "UD: the send queue stops, the receives go on", func(e *Env) { sendQueueError(e, verbs.UD) }},
	{"local error", "READ with MAX_QP_RD_ATOMIC 0", func(e *Env) {
		a, b := e.pair(wiring{tune: func(a, _ *verbs.QPAttr) { a.MaxRdAtomic = 0 }})
		wr := a.remote(verbs.SendWR{Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: a.sge(0, 8)}, b, 0)
		if err := a.qp.PostSend([]verbs.SendWR{wr}); err != nil {
			e.refusedAt(err, 0, syscall.EINVAL)
			return
		}
		wc, ok := a.polled(a.send)
		e.check(ok, "the READ does not complete")
		e.check(!ok || wc.Status == verbs.WCLocQPOpErr, "the READ: %v", wc.Status)
	}},
}

// localError is a case of an RC request that must fail without an effect. Its memory must be
// neither read nor written, and the queue pair must end in ERR.
func localError(name string, op verbs.Opcode, spoil func(*end, *verbs.SGE)) Case {
	return Case{"local error", name, func(e *Env) {
		a, b := e.rc()
		b.receives(1, 1000, 64)
		sge := a.mr.SGE(0, 8)
		spoil(a, &sge)
		b.fill(0, 8)
		before := append([]byte{}, a.mr.Bytes()...)
		a.signaled(a.remote(verbs.SendWR{ID: 42, Opcode: op, SGL: []verbs.SGE{sge}}, b, 0))
		wc := a.sent(1)[0]
		e.status("the request", wc, verbs.WCLocProtErr)
		e.check(wc.ID == 42, "request %d failed", wc.ID)
		e.same("the memory here", a.mr.Bytes(), before)
		e.quiet(b.recv, "a message without memory")
		a.inState(qpstate.Error)
	}}
}

// sendQueueError posts a failing send on a UC or UD queue pair, whose receives must go on.
func sendQueueError(e *Env, typ verbs.QPType) {
	a, b := e.pair(wiring{typ: typ})
	a.receives(2, 0, 200)
	a.sendErrorTo(b)
	a.inState(qpstate.SQE)
	a.signaled(a.toIf(verbs.SendWR{ID: 8, Opcode: verbs.OpSend, SGL: a.sge(0, 8)}, b))
	e.status("a send after it", a.sent(1)[0], verbs.WCWRFlushErr)
	b.signaled(b.toIf(verbs.SendWR{Opcode: verbs.OpSend, SGL: b.sge(0, 8)}, a))
	b.done()
	a.got()
	e.ok(a.machine.Move(qpstate.RTS, a.attr, 0), "SQE→RTS")
	b.receives(1, 0, 200)
	a.signaled(a.toIf(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)}, b))
	a.done()
	b.got()
}

// polled polls for one completion, for as long as the case's patience.
func (x *end) polled(cq *verbs.CQ) (verbs.WC, bool) {
	var wcs [1]verbs.WC
	ok := x.e.until(func() bool {
		n, err := cq.Poll(wcs[:])
		x.e.ok(err, "Poll")
		return n == 1
	})
	return wcs[0], ok
}
