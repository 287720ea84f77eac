// Datagrams (UD), and the unreliable side of UC.

package verbstest

import (
	stderrors "errors"
	"fmt"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

func datagramCases() []Case {
	cases := []Case{
		{"datagram", "two senders to one receiver", func(e *Env) {
			a, b := e.ud()
			c, _ := e.ud()
			for _, from := range []*end{a, c, a} {
				b.receives(1, 0, 200)
				want := from.fill(0, 100)
				from.signaled(from.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: from.sge(0, 100)}, b))
				from.done()
				wc := b.got()
				e.check(wc.SrcQPN == from.qp.QPN() && wc.QPN == b.qp.QPN(), "from %#x to %#x: %+v", from.qp.QPN(), b.qp.QPN(), wc)
				e.same("the message", b.bytes(grhBytes, 100), want)
			}
		}},
		{"datagram", "one sender to two receivers", func(e *Env) {
			a, b := e.ud()
			c, _ := e.ud()
			for i, to := range []*end{b, c, b, c} {
				to.receives(1, 0, 200)
				want := a.fill(0, 50+i)
				a.signaled(a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 50+i)}, to))
				a.done()
				e.check(int(to.got().ByteLen) == grhBytes+50+i, "wrong byte_len at receiver %d", i)
				e.same("the message", to.bytes(grhBytes, 50+i), want)
			}
		}},
		{"datagram", "the GRH has the sender's IP header", func(e *Env) {
			if !e.route().IsGlobal {
				return // this link has no GRH
			}
			a, b := e.ud()
			b.receives(1, 0, 200)
			a.signaled(a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 1)}, b))
			a.done()
			wc, grh, gid := b.got(), b.bytes(0, grhBytes), e.route().GRH.DGID
			e.check(wc.Flags&verbs.WCGRH != 0, "flags %v", wc.Flags)
			if ip := gid.Addr(); ip.Is4() { // the last 20 bytes are an IPv4 header
				e.check(grh[20] == 0x45 && grh[29] == 17, "not an IPv4 header of UDP: % x", grh[20:])
				e.same("the addresses", grh[32:], append(ip.AsSlice(), ip.AsSlice()...))
			} else {
				e.check(grh[0]>>4 == 6, "not an IPv6 header: % x", grh)
				e.same("the addresses", grh[8:], append(gid[:], gid[:]...))
			}
		}},
		{"datagram", "an answer to the sender in the completion", func(e *Env) {
			a, b := e.ud()
			b.receives(1, 0, 200)
			a.signaled(a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 1)}, b))
			a.done()
			wc := b.got()
			ah, err := b.pd.CreateAHFromWC(onePort, &wc, b.bytes(0, grhBytes))
			made(e, ah, err)
			want := b.fill(1000, 100)
			a.receives(1, 2000, 200)
			b.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: b.sge(1000, 100), AH: ah, RemoteQPN: wc.SrcQPN, RemoteQKey: a.attr.QKey})
			b.done()
			a.got()
			e.same("the answer", a.bytes(2000+grhBytes, 100), want)
			if back, err := e.Dev.AHAttrFromWC(onePort, &wc, b.bytes(0, grhBytes)); err == nil && back.IsGlobal {
				slot, err := e.Dev.QueryGID(onePort, int(back.GRH.SGIDIndex))
				e.check(err == nil && slot.Type != verbs.GIDTypeRoCEv1, "the GID slot of the answer is %v, %v", slot, err)
				left := b.bytes(0, grhBytes)[7] // remaining hops, if the header is IPv6
				if slot.GID.Addr().Is4() {
					left = b.bytes(0, grhBytes)[28]
				}
				e.check(back.GRH.HopLimit == left && left > 0, "the answer has %d hops, the datagram had %d left", back.GRH.HopLimit, left)
			}
			_, err = e.Dev.AHAttrFromWC(onePort, &wc, nil)
			e.check(!e.route().IsGlobal || errors.Is(err, syscall.EINVAL), "AHAttrFromWC without a GRH: %v", err)
			_, err = e.Dev.AHAttrFromWC(9, &wc, b.bytes(0, grhBytes))
			e.check(!e.route().IsGlobal || err != nil, "AHAttrFromWC accepts port 9")
		}},
		{"datagram", "a wrong QKEY is dropped", func(e *Env) {
			a, b := e.ud()
			b.receives(2, 0, 200)
			wr := a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 10)}, b)
			wr.RemoteQKey++
			a.signaled(wr)
			a.done()
			e.quiet(b.recv, "a wrong QKEY")
			e.check(b.state() == qpstate.RTS, "the receiver is in %v", b.state())
			wr.RemoteQKey--
			a.signaled(wr)
			a.done()
			e.check(b.got().ID == 0, "the dropped datagram took a receive")
		}},
		{"datagram", "QKEY with the high bit: the sender's own", func(e *Env) {
			a, b := e.ud()
			b.receives(1, 0, 200)
			wr := a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 10)}, b)
			wr.RemoteQKey = 0x80000001
			a.signaled(wr)
			a.done()
			b.got()
		}},
		{"datagram", "to a QPN that does not exist", func(e *Env) {
			a, b := e.ud()
			wr := a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 10)}, b)
			wr.RemoteQPN = 0xabcdef
			a.signaled(wr)
			a.done()
			works(a, b)
		}},
		{"datagram", "to a queue pair of RC", func(e *Env) {
			a, b := e.ud()
			_, d := e.rc()
			d.receives(1, 0, 200)
			a.signaled(a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 10)}, d))
			a.done()
			e.quiet(d.recv, "a datagram to RC")
			works(a, b)
		}},
		{"datagram", "without a receive it is lost, and the queue pair goes on", func(e *Env) {
			a, b := e.ud()
			a.signaled(a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 10)}, b))
			a.done()
			e.quiet(b.send, "nothing")
			works(a, b)
		}},
		{"datagram", "without a receive it is counted", func(e *Env) {
			a, b := e.ud()
			missed := func(x *end) uint64 {
				n, err := x.qp.MissedReceives()
				if errors.Is(err, stderrors.ErrUnsupported) {
					n, err = e.Dev.MissedReceives(onePort) // for all queue pairs
				}
				e.ok(err, "MissedReceives")
				return n
			}
			before := missed(b)
			works(a, b)
			e.check(missed(b) == before, "%d messages missed a receive, though all had one", missed(b)-before)
			for range 3 {
				a.signaled(a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 10)}, b))
				a.done()
			}
			e.check(e.until(func() bool { return missed(b) == before+3 }), "%d of 3 lost datagrams were counted", missed(b)-before)
			if _, err := a.qp.MissedReceives(); err == nil {
				e.check(missed(a) == 0, "the sender counts %d", missed(a))
			}
			_, err := e.Dev.MissedReceives(9)
			e.fails(err, "MissedReceives of port 9", syscall.EINVAL)
		}},
		{"datagram", "longer than the MTU does not arrive", func(e *Env) {
			a, b := e.ud()
			n := e.port().ActiveMTU.Bytes() + 1
			b.receives(1, 0, n+grhBytes)
			wr := a.to(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: a.sge(0, n)}, b)
			if err := a.qp.PostSend([]verbs.SendWR{wr}); err == nil {
				e.status("the send", a.sent(1)[0], verbs.WCSuccess, verbs.WCLocLenErr, verbs.WCLocQPOpErr)
			}
			e.quiet(b.recv, "a datagram too long")
		}},
		{"datagram", "into several elements", func(e *Env) {
			a, b := e.ud()
			want := a.fill(0, 300)
			b.receive(1, b.mr.SGE(0, 39), b.mr.SGE(1000, 101), b.mr.SGE(2000, 500))
			a.signaled(a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{a.mr.SGE(0, 3), a.mr.SGE(3, 297)}}, b))
			a.done()
			b.got()
			e.same("the 2nd element", b.bytes(1001, 100), want[:100])
			e.same("the 3rd element", b.bytes(2000, 200), want[100:])
		}},
		{"datagram", "to the sender itself", func(e *Env) {
			a, _ := e.ud()
			works(a, a)
		}},
		{"datagram", "inline", func(e *Env) {
			a, b := e.ud()
			b.receives(1, 0, 200)
			want := a.fill(0, 64)
			a.signaled(a.to(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, SGL: a.sge(0, 64)}, b))
			clear(a.bytes(0, 64))
			a.done()
			b.got()
			e.same("the message", b.bytes(grhBytes, 64), want)
		}},
		{"datagram", "too long for its receive: dropped, and the receive stays", func(e *Env) {
			a, b := e.ud()
			b.receives(1, 0, grhBytes+9)
			a.signaled(a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 10)}, b))
			a.done() // the sender gets no error
			e.quiet(b.recv, "a datagram too long")
			b.inState(qpstate.RTS)
			a.signaled(a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 9)}, b))
			a.done()
			e.check(b.got().ByteLen == grhBytes+9, "the next datagram has a wrong byte_len")
			works(a, b)
		}},
		{"datagram", "too long for its receive of an SRQ: the receive fails, the queue pair goes on", func(e *Env) {
			a, b := e.pair(wiring{typ: verbs.UD, srq: true})
			b.receives(1, 0, grhBytes+9)
			a.signaled(a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 10)}, b))
			a.done()
			e.status("the receive", b.received(1)[0], verbs.WCLocLenErr, verbs.WCRemInvReqErr) // rdma_rxe reports REM_INV_REQ_ERR
			b.inState(qpstate.RTS)
			works(a, b)
		}},
		{"unreliable", "a message without a receive is lost, and the queue pair goes on", func(e *Env) {
			a, b := e.pair(wiring{typ: verbs.UC})
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 5000)})
			a.done()
			e.quiet(b.recv, "nothing")
			if n, err := b.qp.MissedReceives(); !errors.Is(err, stderrors.ErrUnsupported) {
				e.check(err == nil && n == 1, "%d messages missed a receive, %v; want 1", n, err)
			}
			works(a, b)
		}},
		{"unreliable", "sends to a closed peer succeed", func(e *Env) {
			a, b := e.pair(wiring{typ: verbs.UC})
			e.ok(b.machine.ToReset(), "ToReset")
			for range 5 {
				a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 5000)})
				a.done()
			}
			e.check(a.state() == qpstate.RTS, "the queue pair is in %v", a.state())
		}},
		{"unreliable", "a WRITE with a wrong rkey is dropped", func(e *Env) {
			a, b := e.pair(wiring{typ: verbs.UC})
			wr := a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 100)}, b, 0)
			wr.RKey ^= 0x5555
			a.fill(0, 100)
			a.signaled(wr)
			a.done()
			e.quiet(b.recv, "nothing")
			e.same("the memory", b.bytes(0, 100), make([]byte, 100))
		}},
	}
	for _, l := range lengths[:5] {
		for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendWithImm} {
			cases = append(cases, Case{"data", fmt.Sprintf("UD %s of %s", opName(op), l.name), func(e *Env) { carryDatagram(e, op, l) }})
		}
	}
	return cases
}

// ud returns a pair of UD queue pairs.
func (e *Env) ud() (a, b *end) { return e.pair(wiring{typ: verbs.UD}) }

func carryDatagram(e *Env, op verbs.Opcode, l length) {
	n := l.of(e.port().ActiveMTU.Bytes())
	a, b := e.ud()
	for _, way := range []struct{ from, to *end }{{a, b}, {b, a}} {
		want := way.from.fill(0, n)
		clear(way.to.bytes(10000, 20000))
		way.to.receive(43, way.to.sge(10000, 20000)...)
		wr := way.from.to(verbs.SendWR{ID: 42, Opcode: op, Imm: imm}, way.to)
		if n > 0 {
			wr.SGL = way.from.sge(0, n)
		}
		way.from.signaled(wr)
		e.sendCompletion(way.from, op, n)
		wc := way.to.got()
		e.check(wc.ID == 43 && wc.Opcode == verbs.WCRecv && wc.SrcQPN == way.from.qp.QPN(), "the receive is %+v", wc)
		e.check(int(wc.ByteLen) == grhBytes+n, "%d bytes, want %d", wc.ByteLen, grhBytes+n)
		e.check((wc.Flags&verbs.WCWithImm != 0) == (op == verbs.OpSendWithImm), "flags %v", wc.Flags)
		e.check(op == verbs.OpSend || wc.Imm() == imm, "immediate data %#x", wc.Imm())
		e.same("the message", way.to.bytes(10000+grhBytes, n), want)
		e.same("what is after it", way.to.bytes(10000+grhBytes+n, 64), make([]byte, 64))
	}
}
