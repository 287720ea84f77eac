// Posting: which requests a queue pair accepts and which it refuses, and the index of the
// refused request in a chain.

package verbstest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var postCases = []Case{
	postIn(qpstate.Reset), postIn(qpstate.Init), postIn(qpstate.RTR),
	{"post", "a refused send is never sent", func(e *Env) { refusedIsNotSent(e, verbs.PostAuto) }},
	{"post", "a receive in RESET is refused", func(e *Env) {
		x := e.end(wiring{})
		e.refusedAt(x.qp.PostRecv([]verbs.RecvWR{{SGL: x.sge(0, 8)}}), 0, syscall.EINVAL)
	}},
	{"post", "receives from INIT on", func(e *Env) {
		x := e.end(wiring{})
		x.attr.DestQPN = x.qp.QPN()
		for _, step := range []verbs.QPState{qpstate.Init, qpstate.RTR, qpstate.RTS, qpstate.SQD} {
			e.ok(x.machine.Move(step, x.attr, 0), "Move")
			x.receives(2, 0, 64)
		}
		e.ok(x.machine.ToError(), "ToError")
		for _, wc := range x.received(8) {
			e.status("a receive", wc, verbs.WCWRFlushErr)
		}
	}},
	{"post", "in ERR, sends and receives are flushed", func(e *Env) {
		a, _ := e.rc()
		e.ok(a.machine.ToError(), "ToError")
		a.receive(3, a.sge(0, 8)...)
		a.post(verbs.SendWR{ID: 4, Opcode: verbs.OpSend, SGL: a.sge(0, 8)}) // not signaled, but a failed request always completes
		recv, send := a.received(1)[0], a.sent(1)[0]
		e.status("the receive", recv, verbs.WCWRFlushErr)
		e.status("the send", send, verbs.WCWRFlushErr)
		e.check(recv.ID == 3 && send.ID == 4, "IDs %d, %d", recv.ID, send.ID)
	}},
	{"post", "nothing", func(e *Env) {
		a, b := e.rc()
		e.ok(a.qp.PostSend(nil), "PostSend")
		e.ok(a.qp.PostRecv([]verbs.RecvWR{}), "PostRecv")
		works(a, b)
	}},
	{"post", "too many elements of a send", func(e *Env) {
		a, b := e.rc()
		wr := verbs.SendWR{Opcode: verbs.OpSend, SGL: slices.Repeat(a.sge(0, 8), int(a.qp.Cap().MaxSendSGE)+1)}
		err := a.qp.PostSend([]verbs.SendWR{wr})
		e.refusedAt(err, 0, syscall.EINVAL, syscall.ENOMEM)
		e.says(err, "elements (SGEs)")
		works(a, b)
	}},
	{"post", "too many elements of a receive", func(e *Env) {
		a, b := e.rc()
		wr := verbs.RecvWR{SGL: slices.Repeat(a.sge(0, 8), int(a.qp.Cap().MaxRecvSGE)+1)}
		err := a.qp.PostRecv([]verbs.RecvWR{wr})
		e.refusedAt(err, 0, syscall.EINVAL, syscall.ENOMEM)
		e.says(err, "elements (SGEs)")
		works(a, b)
	}},
	{"post", "a bad send within a chain", func(e *Env) {
		a, b := e.rc()
		b.receives(4, 0, 64)
		wrs := make([]verbs.SendWR, 4)
		for i := range wrs {
			wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: a.sge(0, 8)}
		}
		wrs[2].SGL = slices.Repeat(a.sge(0, 8), int(a.qp.Cap().MaxSendSGE)+1)
		e.refusedAt(a.qp.PostSend(wrs), 2, syscall.EINVAL, syscall.ENOMEM)
		for i, wc := range a.sent(2) {
			e.check(wc.ID == uint64(i) && wc.Status == verbs.WCSuccess, "completion %d: %+v", i, wc)
		}
		b.received(2)
		e.quiet(a.send, "requests after the bad one")
		e.quiet(b.recv, "requests after the bad one")
		a.signaled(wrs[3])
		a.done()
		b.got()
	}},
	{"post", "a bad receive within a chain", func(e *Env) {
		a, b := e.rc()
		wrs := make([]verbs.RecvWR, 4)
		for i := range wrs {
			wrs[i] = verbs.RecvWR{ID: uint64(i), SGL: b.sge(0, 8)}
		}
		wrs[1].SGL = slices.Repeat(b.sge(0, 8), int(b.qp.Cap().MaxRecvSGE)+1)
		e.refusedAt(b.qp.PostRecv(wrs), 1, syscall.EINVAL, syscall.ENOMEM)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		a.done()
		e.check(b.got().ID == 0, "the first receive was not posted")
		e.ok(b.machine.ToError(), "ToError")
		e.quiet(b.recv, "requests after the bad one")
	}},
	notOf(verbs.UC, verbs.OpRDMARead), notOf(verbs.UC, verbs.OpAtomicFetchAndAdd),
	notOf(verbs.UD, verbs.OpRDMAWrite), notOf(verbs.UD, verbs.OpRDMARead),
	{"post", "an opcode that does not exist", func(e *Env) { refusedOrFailed(e, verbs.RC, 99) }},
	{"post", "a request whose opcode is not set", func(e *Env) {
		for _, w := range []wiring{{}, {typ: verbs.UC}, {typ: verbs.UD}} {
			a, b := e.pair(w)
			wr := a.toIf(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)}, b)
			unset := wr
			unset.Opcode = 0
			err := a.qp.PostSend([]verbs.SendWR{wr, unset, wr})
			e.refusedAt(err, 1, syscall.EINVAL)
			e.says(err, "SendWR.Opcode is not set")
		}
	}},
	{"post", "a datagram without an address", func(e *Env) {
		a, b := e.pair(wiring{typ: verbs.UD})
		wr := a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)}, b)
		wr.AH = nil
		err := a.qp.PostSend([]verbs.SendWR{wr})
		e.refusedAt(err, 0, syscall.EINVAL)
		e.says(err, "no AH")
	}},
	{"post", "a datagram to an address of another domain", func(e *Env) {
		a, b := e.pair(wiring{typ: verbs.UD})
		ah, err := e.pd().CreateAH(e.route())
		made(e, ah, err)
		wr := a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)}, b)
		wr.AH = ah
		err = a.qp.PostSend([]verbs.SendWR{wr})
		e.refusedAt(err, 0, syscall.EINVAL)
		e.check(err != nil && strings.Contains(err.Error(), "an AH of the queue pair's PD"), "no hint: %v", err)
	}},
	{"post", "inline: the buffer is free at once", func(e *Env) {
		a, b := e.rc()
		b.receives(1, 0, 64)
		want := a.fill(0, 64)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, SGL: a.sge(0, 64)})
		clear(a.bytes(0, 64))
		a.done()
		b.got()
		e.same("the message", b.bytes(0, 64), want)
	}},
	{"post", "inline: the lkey is ignored", func(e *Env) {
		a, b := e.rc()
		b.receives(1, 0, 64)
		want := a.fill(0, 40)
		sgl := []verbs.SGE{a.mr.SGE(0, 10), a.mr.SGE(10, 30)}
		sgl[0].LKey, sgl[1].LKey = 0, 0xdead
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, SGL: sgl})
		a.done()
		b.got()
		e.same("the message", b.bytes(0, 40), want)
	}},
	{"post", "inline WRITE", func(e *Env) {
		a, b := e.rc()
		want := a.fill(0, 64)
		a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendInline, SGL: a.sge(0, 64)}, b, 100))
		clear(a.bytes(0, 64))
		a.done()
		e.same("the memory", b.bytes(100, 64), want)
	}},
	{"post", "inline from a region under a chosen address", func(e *Env) { notInline(e, everything, verbs.MROptions{IOVA: 0x7000_0000_0000}) }},
	{"post", "inline from a ZERO_BASED region", func(e *Env) { notInline(e, everything|verbs.AccessZeroBased, verbs.MROptions{}) }},
	{"post", "more inline than was granted", func(e *Env) {
		a, b := e.rc()
		n := int(a.qp.Cap().MaxInlineData) + 1
		wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, SGL: a.sge(0, n)}
		err := a.qp.PostSend([]verbs.SendWR{wr})
		e.refusedAt(err, 0, syscall.EINVAL, syscall.ENOMEM)
		e.says(err, "bytes inline")
		works(a, b)
	}},
	{"post", "gather and scatter", func(e *Env) {
		a, b := e.rc()
		var from, to []verbs.SGE
		var want []byte
		for i, n := range []int{1, 500, 33, 1466} {
			want = append(want, a.fill(i*3000+i, n)...)
			from = append(from, a.mr.SGE(i*3000+i, n))
		}
		for i, n := range []int{700, 2, 1297, 100} {
			to = append(to, b.mr.SGE(i*3000+7, n))
		}
		b.receive(1, to...)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: from})
		a.done()
		e.check(b.got().ByteLen == 2000, "byte_len is not 2000")
		var got []byte
		for i, n := range []int{700, 2, 1297, 1} {
			got = append(got, b.bytes(i*3000+7, n)...)
		}
		e.same("the message", got, want)
	}},
	{"post", "as many elements as were granted", func(e *Env) {
		n := min(e.device().MaxSGE, 16)
		cap := verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: uint32(n), MaxRecvSGE: uint32(n)}
		a, b := e.pair(wiring{cap: cap})
		want := a.fill(0, n*10)
		var from, to []verbs.SGE
		for i := range n {
			from, to = append(from, a.mr.SGE(i*10, 10)), append(to, b.mr.SGE(i*10, 10))
		}
		b.receive(1, to...)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: from})
		a.done()
		b.got()
		e.same("the message", b.bytes(0, n*10), want)
	}},
}

// says reports a fault unless an error contains the reason.
func (e *Env) says(err error, reason string) {
	if err != nil && !strings.Contains(err.Error(), reason) {
		e.Errorf("the post: got %v, want the reason %q", err, reason)
	}
}

// refusedAt reports a fault unless a post was refused at the index.
func (e *Env) refusedAt(err error, index int, want ...error) {
	e.fails(err, "the post", want...)
	var pe *verbs.PostError
	if err != nil && (!errors.As(err, &pe) || pe.Index != index) {
		e.Errorf("the post: got %v, want index %d", err, index)
	}
}

// refusedIsNotSent posts a send in INIT and one in RTR, which are refused, and then one in RTS.
// Only the last may complete and arrive.
func refusedIsNotSent(e *Env, path verbs.PostPath) {
	refused := func(x *end) {
		err := x.qp.PostSend([]verbs.SendWR{{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: x.sge(0, 8)}})
		e.fails(err, "PostSend below RTS", syscall.EINVAL)
	}
	a, b := e.pair(wiring{path: path, leave: qpstate.RTR, before: func(_, b *end) { refused(b) }})
	refused(b)
	e.ok(b.machine.ToRTS(b.attr), "ToRTS")
	a.receives(4, 0, 64)
	b.signaled(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, SGL: b.sge(0, 8)})
	e.check(b.done().ID == 2, "a refused send completed")
	a.got()
	e.quiet(b.send, "a refused send")
	e.quiet(a.recv, "a refused send")
}

// postIn is a case of a send in a state before RTS.
func postIn(state verbs.QPState) Case {
	return Case{"post", "a send in " + state.Name() + " is refused", func(e *Env) {
		for _, typ := range qpstate.Types() {
			t := newTraveller(e, typ, state)
			err := t.qp.PostSend([]verbs.SendWR{t.toIf(verbs.SendWR{Opcode: verbs.OpSend, SGL: t.sge(0, 8)}, t.end)})
			e.refusedAt(err, 0, syscall.EINVAL)
			e.says(err, "the queue pair is in "+state.Name())
			e.quiet(t.send, "a refused send")
		}
	}}
}

// notOf is a case of an operation that a type does not have.
func notOf(typ verbs.QPType, op verbs.Opcode) Case {
	return Case{"post", fmt.Sprintf("%v on %s", op, typ.Name()), func(e *Env) { refusedOrFailed(e, typ, op) }}
}

// refusedOrFailed posts an operation that a type does not have. It must not succeed: hardware
// refuses it when it is posted, rdma_rxe fails it when its turn comes.
func refusedOrFailed(e *Env, typ verbs.QPType, op verbs.Opcode) {
	a, b := e.pair(wiring{typ: typ})
	wr := a.remote(verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, SGL: a.sge(0, 8)}, b, 0)
	if err := a.qp.PostSend([]verbs.SendWR{a.toIf(wr, b)}); err != nil {
		e.refusedAt(err, 0, syscall.EINVAL, syscall.EOPNOTSUPP)
		return
	}
	e.status("the request", a.sent(1)[0], verbs.WCLocQPOpErr, verbs.WCWRFlushErr)
}

// notInline checks that a region carries data but refuses inline data, because its addresses
// are not pointers.
func notInline(e *Env, access verbs.Access, options verbs.MROptions) {
	a, b := e.rc()
	mr, err := a.pd.AllocMRWith(4096, access, options)
	made(e, mr, err)
	sgl := []verbs.SGE{a.mr.SGE(0, 8), mr.SGE(8, 8)}
	for _, wr := range []verbs.SendWR{
		{Opcode: verbs.OpSend, Flags: verbs.SendInline, SGL: sgl},
		a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendInline, SGL: sgl[1:]}, b, 0),
	} {
		e.refusedAt(a.qp.PostSend([]verbs.SendWR{wr}), 0, syscall.EINVAL)
	}
	b.receives(1, 0, 64)
	a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: sgl})
	a.done()
	b.got()
	e.ok(mr.Close(), "Close")
	works(a, b)
}
