// Errors that the peer finds: requests that its memory, its regions or its queue pair do not
// allow. The requester must get the right status, the responder's memory must not change, and
// both queue pairs must end in ERR.

package verbstest

import (
	"slices"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var (
	writeOp  = verbs.SendWR{Opcode: verbs.OpRDMAWrite}
	readOp   = verbs.SendWR{Opcode: verbs.OpRDMARead}
	atomicOp = verbs.SendWR{Opcode: verbs.OpAtomicFetchAndAdd, CompareAdd: 1}
)

// errorCases accept two statuses if the queue pair lacks a right: devices report an invalid
// request or, as for a region that lacks it, an access error.
var errorCases = slices.Concat(
	everyOp("a wrong rkey", wiring{}, func(wr *verbs.SendWR, _ *end) { wr.RKey ^= 0x5555 }, verbs.WCRemAccessErr),
	everyOp("beyond the region's end", wiring{}, func(wr *verbs.SendWR, b *end) {
		wr.RemoteAddr = b.mr.Addr() + uint64(b.mr.Len())
	}, verbs.WCRemAccessErr),
	everyOp("before the region's beginning", wiring{}, func(wr *verbs.SendWR, b *end) { wr.RemoteAddr = b.mr.Addr() - 8 }, verbs.WCRemAccessErr),
	everyOp("at the end of the address space", wiring{}, func(wr *verbs.SendWR, _ *end) { wr.RemoteAddr = ^uint64(7) }, verbs.WCRemAccessErr),
	everyOp("address 0", wiring{}, func(wr *verbs.SendWR, _ *end) { wr.RemoteAddr = 0 }, verbs.WCRemAccessErr),
	everyOp("a region of another domain", wiring{}, func(wr *verbs.SendWR, b *end) {
		mr := b.e.mr(b.e.pd(), 4096, everything)
		wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
	}, verbs.WCRemAccessErr),
	everyOp("a region without remote rights", wiring{access: verbs.AccessLocalWrite}, nil, verbs.WCRemAccessErr),
	everyOp("a queue pair without remote rights", wiring{tune: func(_, b *verbs.QPAttr) { b.Access = 0 }}, nil, verbs.WCRemInvReqErr, verbs.WCRemAccessErr),
	[]Case{
		remoteError("WRITE to a region without REMOTE_WRITE", wiring{access: verbs.AccessLocalWrite | verbs.AccessRemoteRead}, writeOp, nil, verbs.WCRemAccessErr),
		remoteError("READ of a region without REMOTE_READ", wiring{access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite}, readOp, nil, verbs.WCRemAccessErr),
		remoteError("an atomic on a region without atomics", wiring{access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead}, atomicOp, nil, verbs.WCRemAccessErr),
		remoteError("WRITE on a queue pair without REMOTE_WRITE", wiring{tune: func(_, b *verbs.QPAttr) { b.Access = verbs.AccessRemoteRead }}, writeOp, nil, verbs.WCRemInvReqErr, verbs.WCRemAccessErr),
		remoteError("READ on a queue pair without REMOTE_READ", wiring{tune: func(_, b *verbs.QPAttr) { b.Access = verbs.AccessRemoteWrite }}, readOp, nil, verbs.WCRemInvReqErr, verbs.WCRemAccessErr),
		remoteError("an atomic on a queue pair without atomics", wiring{tune: func(_, b *verbs.QPAttr) { b.Access &^= verbs.AccessRemoteAtomic }}, atomicOp, nil, verbs.WCRemInvReqErr, verbs.WCRemAccessErr),
		remoteError("READ with MAX_DEST_RD_ATOMIC 0", wiring{tune: func(_, b *verbs.QPAttr) { b.MaxDestRdAtomic = 0 }}, readOp, nil, verbs.WCRemInvReqErr),
		remoteError("one byte beyond the region's end", wiring{}, writeOp, func(wr *verbs.SendWR, b *end) {
			wr.RemoteAddr = b.mr.Addr() + uint64(b.mr.Len()) - 7
		}, verbs.WCRemAccessErr),
		{"error", "a long WRITE beyond the end changes nothing", func(e *Env) {
			a, b := e.rc()
			a.fill(0, 20000)
			a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 20000)}, b, b.mr.Len()-19999))
			e.status("the WRITE", a.sent(1)[0], verbs.WCRemAccessErr)
			e.same("the memory", b.mr.Bytes(), make([]byte, b.mr.Len()))
		}},
		{"error", "up to the region's last byte is no error", func(e *Env) {
			a, b := e.rc()
			want := a.fill(0, 3000)
			a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 3000)}, b, b.mr.Len()-3000))
			a.done()
			e.same("the memory", b.bytes(b.mr.Len()-3000, 3000), want)
		}},
		{"error", "0 bytes need no region", func(e *Env) {
			a, b := e.rc()
			for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
				a.signaled(verbs.SendWR{Opcode: op, RemoteAddr: 0x1234567, RKey: 0xdead})
				a.done()
			}
			works(a, b)
		}},
		{"error", "an atomic on an address that is not aligned", func(e *Env) {
			a, b := e.rc()
			wr := a.remote(atomicOp, b, 804)
			wr.Flags, wr.SGL = verbs.SendSignaled, a.sge(0, 8)
			err := a.qp.PostSend([]verbs.SendWR{wr})
			e.says(err, "is not a multiple of 8")
			if err == nil { // hardware lets the peer check it
				e.status("the atomic", a.sent(1)[0], verbs.WCRemInvReqErr, verbs.WCRemAccessErr)
			}
			e.same("the memory", b.bytes(800, 16), make([]byte, 16))
		}},
		{"error", "a receive too small", func(e *Env) { tooSmall(e, verbs.OpSend, 100, 99) }},
		{"error", "a receive too small for a message of many packets", func(e *Env) { tooSmall(e, verbs.OpSend, 20000, 19999) }},
		{"error", "a receive without memory", func(e *Env) { tooSmall(e, verbs.OpSendWithImm, 1, 0) }},
		{"error", "a receive just large enough is no error", func(e *Env) {
			a, b := e.rc()
			b.receives(1, 0, 20000)
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 20000)})
			a.done()
			b.got()
		}},
		badReceive("a wrong lkey", wiring{}, func(_ *end, s *verbs.SGE) { s.LKey ^= 0x5555 }),
		badReceive("beyond its region", wiring{}, func(b *end, s *verbs.SGE) { s.Addr = b.mr.Addr() + uint64(b.mr.Len()) - 4 }),
		badReceive("a region of another domain", wiring{}, func(b *end, s *verbs.SGE) { *s = b.e.mr(b.e.pd(), 64, everything).SGE(0, 64) }),
		badReceive("a region without LOCAL_WRITE", wiring{access: verbs.AccessRemoteRead}, nil),
	},
)

// everyOp returns a remoteError for each one-sided operation.
func everyOp(name string, w wiring, spoil func(*verbs.SendWR, *end), want ...verbs.WCStatus) []Case {
	var cases []Case
	for _, op := range []struct {
		name string
		wr   verbs.SendWR
	}{{"WRITE", writeOp}, {"READ", readOp}, {"atomic", atomicOp}} {
		cases = append(cases, remoteError(op.name+": "+name, w, op.wr, spoil, want...))
	}
	return cases
}

// remoteError is a case of an 8-byte request that the peer must refuse. The requester's own
// region has all rights.
func remoteError(name string, w wiring, wr verbs.SendWR, spoil func(*verbs.SendWR, *end), want ...verbs.WCStatus) Case {
	return Case{"error", name, func(e *Env) {
		a, b := e.pair(w)
		b.receives(2, 1000, 64)
		wr := a.remote(wr, b, 0)
		wr.ID, wr.SGL = 42, []verbs.SGE{e.mr(a.pd, 64, everything).SGE(0, 8)}
		if spoil != nil {
			spoil(&wr, b)
		}
		a.signaled(wr)
		wc := a.sent(1)[0]
		e.status("the request", wc, want...)
		e.check(wc.ID == 42 && wc.QPN == a.qp.QPN(), "completion %+v", wc)
		e.same("the memory", b.mr.Bytes(), make([]byte, b.mr.Len()))
		a.inState(qpstate.Error)
		b.inState(qpstate.Error)
		for i, wc := range b.received(2) {
			e.status("a receive of the responder", wc, verbs.WCWRFlushErr)
			e.check(wc.ID == uint64(i), "receive %d was flushed as number %d", wc.ID, i)
		}
	}}
}

// tooSmall sends n bytes to a receive of room bytes, which is less.
func tooSmall(e *Env, op verbs.Opcode, n, room int) {
	a, b := e.rc()
	if room == 0 {
		b.receive(5)
	} else {
		b.receive(5, b.sge(0, room)...)
	}
	b.receive(6, b.sge(0, 64)...)
	a.fill(0, n)
	a.signaled(verbs.SendWR{Opcode: op, SGL: a.sge(0, n)})
	e.status("the send", a.sent(1)[0], verbs.WCRemInvReqErr)
	wcs := b.received(2)
	e.status("the receive", wcs[0], verbs.WCLocLenErr)
	e.status("the next receive", wcs[1], verbs.WCWRFlushErr)
	e.check(wcs[0].ID == 5 && wcs[1].ID == 6, "receives %d and %d", wcs[0].ID, wcs[1].ID)
	e.same("what is after it", b.bytes(room, 64), make([]byte, 64))
	a.inState(qpstate.Error)
	b.inState(qpstate.Error)
}

// badReceive is a case of a message to a receive whose memory the responder must not write.
func badReceive(name string, w wiring, spoil func(*end, *verbs.SGE)) Case {
	return Case{"error", "a receive: " + name, func(e *Env) {
		a, b := e.pair(w)
		sge := b.mr.SGE(0, 64)
		if spoil != nil {
			spoil(b, &sge)
		}
		b.receive(5, sge)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 32)})
		e.status("the send", a.sent(1)[0], verbs.WCRemOpErr)
		e.status("the receive", b.received(1)[0], verbs.WCLocProtErr)
		a.inState(qpstate.Error)
		b.inState(qpstate.Error)
	}}
}
