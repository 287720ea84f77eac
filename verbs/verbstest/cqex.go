// Extended completion queues.

package verbstest

import (
	"context"
	stderrors "errors"
	"net"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

func cqExCases() []Case {
	cases := []Case{
		{"cq ex", "create, resize and close", func(e *Env) {
			cq := e.cqEx(16, verbs.WCExStandard)
			e.check(cq.Depth() >= 16, "depth %d", cq.Depth())
			e.ok(cq.Resize(100), "Resize")
			n, err := cq.PollEx(make([]verbs.WCEx, 4))
			e.check(n == 0 && err == nil, "an empty CQ: %d, %v", n, err)
			n, err = cq.PollEx(nil)
			e.check(n == 0 && err == nil, "without room: %d, %v", n, err)
			e.ok(cq.Close(), "Close")
			_, err = cq.PollEx(make([]verbs.WCEx, 1))
			e.fails(err, "PollEx", net.ErrClosed)
			_, err = cq.WaitFor(e.Ctx, nil, verbs.WaitOptions{Ex: make([]verbs.WCEx, 1)})
			e.fails(err, "WaitFor", net.ErrClosed)
		}},
		{"cq ex", "a plain CQ has no extended completions", func(e *Env) {
			_, err := e.cq(4).PollEx(make([]verbs.WCEx, 1))
			e.fails(err, "PollEx", syscall.EINVAL)
		}},
		badCQ("extended, of depth 0", func(*Env) verbs.CQInit { return verbs.CQInit{Ex: verbs.WCExStandard} }),
		badCQ("extended, deeper than the device", func(e *Env) verbs.CQInit {
			return verbs.CQInit{Depth: e.device().MaxCQE + 1, Ex: verbs.WCExStandard}
		}),
		{"cq ex", "fields that do not exist are refused", func(e *Env) {
			for _, ex := range []verbs.WCExFlags{1 << 20, verbs.WCExTMInfo} {
				cq, err := e.Dev.CreateCQ(verbs.CQInit{Depth: 4, Ex: verbs.WCExStandard | ex})
				e.fails(err, "CreateCQ", stderrors.ErrUnsupported)
				if err == nil {
					e.Cleanup(cq.Close)
				}
			}
		}},
		{"cq ex", "batches, in order", func(e *Env) {
			cq := e.cqEx(64, verbs.WCExStandard)
			qp := e.qp(e.pd(), verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()})
			e.flushable(qp, 30)
			e.ok(qp.Modify(&verbs.QPAttr{State: qpstate.Error}, qpstate.MaskState), "Modify")
			time.Sleep(quietTime) // until all have completed
			next := uint64(0)
			for _, batch := range []int{1, 7, 16, 100} {
				wcs := make([]verbs.WCEx, batch)
				n, err := cq.PollEx(wcs)
				e.check(err == nil && (n == batch || batch == 100 && n == 6), "%d of %d: %v", n, batch, err)
				for _, wc := range wcs[:n] {
					e.check(wc.ID == next && wc.Status == verbs.WCWRFlushErr && wc.QPN == qp.QPN(), "completion %d: %+v", next, wc)
					next++
				}
			}
			n, err := cq.PollEx(make([]verbs.WCEx, 1))
			e.check(n == 0 && err == nil, "an emptied CQ: %d, %v", n, err)
		}},
		{"cq ex", "polled by Poll", func(e *Env) {
			x := e.endEx(verbs.RC, verbs.WCExStandard)
			a, b := e.joined(x)
			works(a, b)
		}},
		{"cq ex", "a failed completion", func(e *Env) {
			x := e.endEx(verbs.RC, verbs.WCExStandard)
			a, b := e.joined(x)
			wr := b.remote(verbs.SendWR{ID: 5, Opcode: verbs.OpRDMAWrite, SGL: b.sge(0, 8)}, a, 0)
			wr.RKey ^= 0x5555
			b.signaled(wr)
			wc := b.oneEx(b.send)
			e.check(wc.ID == 5 && wc.Status == verbs.WCRemAccessErr && wc.QPN == b.qp.QPN() && wc.Err() != nil, "%+v", wc)
		}},
		{"cq ex", "a wait is woken, and ended by its context", func(e *Env) {
			x := e.endEx(verbs.RC, verbs.WCExStandard)
			a, b := e.joined(x)
			b.receives(1, 0, 64)
			time.AfterFunc(testkit.Moment, func() {
				if err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGL: a.sge(0, 5)}}); err != nil {
					e.Errorf("%v", err)
				}
			})
			e.check(b.oneEx(b.recv).ByteLen == 5, "byte_len is not 5")
			_, err := b.recv.WaitFor(e.soon(), nil, verbs.WaitOptions{Ex: make([]verbs.WCEx, 1)})
			e.fails(err, "WaitFor", context.DeadlineExceeded)
		}},
		{"cq ex", "timestamps do not run backwards", func(e *Env) { stamped(e, verbs.WCExTimestamp) }},
		{"cq ex", "wall clock times are current", func(e *Env) { stamped(e, verbs.WCExWallclock) }},
		{"cq ex", "single-threaded", func(e *Env) {
			cq, err := e.Dev.CreateCQ(verbs.CQInit{Depth: 64, Channel: e.channel(), Ex: verbs.WCExStandard, Flags: verbs.CQSingleThreaded})
			made(e, cq, err)
			x := e.end(wiring{})
			x.send, x.recv = cq, cq
			a, b := e.joined(x.sibling(wiring{}))
			b.receives(1, 0, 64)
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
			a.done()
			e.check(b.oneEx(b.recv).ByteLen == 8, "byte_len is not 8")
		}},
	}
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		cases = append(cases, Case{"cq ex", typ.Name() + " traffic", func(e *Env) { trafficEx(e, typ) }})
	}
	return cases
}

// trafficEx checks the fields of extended completions.
func trafficEx(e *Env, typ verbs.QPType) {
	x := e.endEx(typ, verbs.WCExStandard)
	a, b := e.joined(x)
	head := 0
	if typ == verbs.UD {
		head = grhBytes
	}
	for i := range 100 { // more than the CQ holds
		b.receive(uint64(i), b.sge(0, 200)...)
		a.signaled(a.toIf(verbs.SendWR{Opcode: verbs.OpSendWithImm, Imm: 0x01020304 + uint32(i), SGL: a.sge(0, 100)}, b))
		a.done()
		wc := b.oneEx(b.recv)
		e.check(wc.ID == uint64(i) && wc.Err() == nil && wc.Opcode == verbs.WCRecv && wc.QPN == b.qp.QPN(), "%+v", wc)
		e.check(int(wc.ByteLen) == head+100 && wc.Imm() == 0x01020304+uint32(i), "%d bytes, immediate %#x", wc.ByteLen, wc.Imm())
		e.check(typ != verbs.UD || wc.SrcQPN == a.qp.QPN() && wc.Flags&verbs.WCGRH != 0, "from QP %#x, want %#x; flags %v", wc.SrcQPN, a.qp.QPN(), wc.Flags)
		a.receive(7, a.sge(1000, 200)...)
		b.signaled(b.toIf(verbs.SendWR{ID: 70, Opcode: verbs.OpSend, SGL: b.sge(0, 8)}, a))
		sent := b.oneEx(b.send)
		e.check(sent.ID == 70 && sent.Err() == nil && sent.Opcode == verbs.WCSend, "the send: %+v", sent)
		a.got()
	}
}

// stamped checks the times of a few completions.
func stamped(e *Env, what verbs.WCExFlags) {
	x := e.endEx(verbs.RC, verbs.WCExStandard|what)
	a, b := e.joined(x)
	var last verbs.WCEx
	for i := range 5 {
		b.receives(1, 0, 64)
		begin := time.Now()
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		a.done()
		wc := b.oneEx(b.recv)
		if what == verbs.WCExTimestamp {
			e.check(i == 0 || wc.Timestamp > last.Timestamp, "timestamp %d follows %d", wc.Timestamp, last.Timestamp)
		} else {
			const slack = time.Second // the two clocks are adjusted separately
			e.check(wc.Wallclock().After(begin.Add(-slack)) && wc.Wallclock().Add(-slack).Before(time.Now()), "the wall clock time is %v, at about %v", wc.Wallclock(), begin)
		}
		last = wc
		time.Sleep(time.Millisecond)
	}
}

func (e *Env) cqEx(depth int, ex verbs.WCExFlags) *verbs.CQ {
	cq, err := e.Dev.CreateCQ(verbs.CQInit{Depth: depth, Channel: e.channel(), Ex: ex})
	return made(e, cq, err)
}

// endEx returns an end with extended CQs and a queue pair in RESET.
func (e *Env) endEx(typ verbs.QPType, ex verbs.WCExFlags) *end {
	x := e.end(wiring{typ: typ})
	x.send, x.recv = e.cqEx(64, ex), e.cqEx(64, ex)
	return x.sibling(wiring{typ: typ})
}

// oneEx waits for one extended completion.
func (x *end) oneEx(cq *verbs.CQ) verbs.WCEx {
	ctx, cancel := x.e.patient()
	defer cancel()
	var wcs [1]verbs.WCEx
	n, err := cq.WaitFor(ctx, nil, verbs.WaitOptions{Ex: wcs[:]})
	if n != 1 || err != nil {
		x.e.Fatalf("WaitFor: %d, %v", n, err)
	}
	return wcs[0]
}
