package transport

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestClose closes a queue pair with queued work and an alarm. Both must be gone.
func TestClose(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	net.tap = func(*simnode, *simnode, []byte) bool { return false }
	e := a.node.engine
	a.send(verbs.SendWR{Opcode: verbs.OpSend})
	net.transmit()
	if _, ok := e.Deadline(); !ok || e.QP(a.qp.QPN()) != a.qp {
		t.Fatal("the queue pair has no alarm, or its number is unknown")
	}
	a.qp.Close()
	if _, ok := e.Deadline(); ok || e.QP(a.qp.QPN()) != nil {
		t.Error("the alarm or the number is still there")
	}
	a.inject(b, packet.RCSendOnly, b.opts.psn, 0, nil)
	if e.Counter(DropNoQP) != 1 {
		t.Error("a closed queue pair accepted a packet")
	}
	if _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); err == nil {
		t.Error("a closed queue pair accepted a request")
	}
	net.settle()
	if a.scq.Poll(make([]verbs.WC, 1)) != 0 {
		t.Error("a closed queue pair completed a request")
	}
}

// TestErrorAfterTheLastMessage checks that a delivered message is acknowledged although the
// program moved the queue pair to ERR before the ACK was sent.
func TestErrorAfterTheLastMessage(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	w := net.watch(b.node)
	b.recv(verbs.RecvWR{ID: 7})
	b.inject(a, packet.RCSendOnly, a.opts.psn, 0, func(p packet.Packet) { p.BTH().SetAckReq(true) })
	b.want(b.rcq, 7, verbs.WCSuccess, verbs.WCRecv)
	if len(w.packets) > 0 {
		t.Fatal("the ACK was sent before the move")
	}
	b.modify(qpstate.Attr{State: qpstate.Error}, 0)
	net.transmit()
	if len(w.packets) != 1 || w.packets[0].Opcode() != packet.RCAcknowledge {
		t.Errorf("%d packets, want one ACK", len(w.packets))
	}
	b.modify(qpstate.Attr{State: qpstate.Error}, 0)
	net.transmit()
	if len(w.packets) != 1 {
		t.Errorf("%d packets after the second move to ERR, want none", len(w.packets))
	}
}

// TestErrorAfterARefusal checks that a refused request is answered although the program moved the
// queue pair, which the refusal had moved to ERR, to ERR once more before the NAK was sent. Later
// requests get no answer.
func TestErrorAfterARefusal(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	w := net.watch(b.node)
	b.recv(verbs.RecvWR{ID: 7})
	tooLong := func(psn uint32) { b.inject(a, packet.RCSendOnly, psn, 8, nil) }
	tooLong(a.opts.psn)
	b.want(b.rcq, 7, verbs.WCLocLenErr, verbs.WCRecv)
	b.modify(qpstate.Attr{State: qpstate.Error}, 0)
	for range 2 {
		net.transmit()
		if len(w.packets) != 1 || w.packets[0].Opcode() != packet.RCAcknowledge || w.packets[0].AETH().Syndrome() != packet.NAKInvalidRequest {
			t.Fatalf("%d packets, want one NAK", len(w.packets))
		}
		tooLong(a.opts.psn)
	}
}

// TestErrorOfTheRequester checks that a delivered message is acknowledged although the program's
// next send ended the queue pair before the ACK was sent.
func TestErrorOfTheRequester(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	w := net.watch(b.node)
	b.recv(verbs.RecvWR{ID: 7})
	b.inject(a, packet.RCSendOnly, a.opts.psn, 0, func(p packet.Packet) { p.BTH().SetAckReq(true) })
	b.want(b.rcq, 7, verbs.WCSuccess, verbs.WCRecv)
	b.send(verbs.SendWR{ID: 8, Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: 8}}}) // no region has this key
	net.transmit()
	b.want(b.scq, 8, verbs.WCLocProtErr, verbs.WCSend)
	if len(w.packets) != 1 || w.packets[0].Opcode() != packet.RCAcknowledge {
		t.Errorf("%d packets, want one ACK", len(w.packets))
	}
}

// TestOwesAnswer asks before and after a goroutine takes the answer, and after it is sent.
func TestOwesAnswer(t *testing.T) {
	for name, payload := range map[string]int{"ACK": 0, "NAK": 8} {
		t.Run(name, func(t *testing.T) {
			_, a, b := pair(t, 1, defaults())
			owes := func(when string, want bool) {
				t.Helper()
				if got := b.qp.OwesAnswer(); got != want {
					t.Errorf("%s: OwesAnswer is %v, want %v", when, got, want)
				}
			}
			owes("at first", false)
			b.recv(verbs.RecvWR{ID: 7})
			b.inject(a, packet.RCSendOnly, a.opts.psn, payload, func(p packet.Packet) { p.BTH().SetAckReq(true) })
			owes("delivered", true)
			o := NewOutbox(make([]byte, packet.MaxPacket), 1, 1)
			if bursts := b.node.engine.Transmit(0, o); len(bursts) != 1 {
				t.Fatalf("%d bursts, want one", len(bursts))
			}
			owes("taken", true)
			b.node.engine.Transmit(0, o)
			owes("sent", false)
		})
	}
}

// TestUnsent asks before and after a goroutine takes the packets of a region, and once the window is full.
func TestUnsent(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	unsent := func(when string, want *QP) {
		t.Helper()
		if got := a.mr.Unsent(); got != want || b.mr.Unsent() != nil {
			t.Errorf("%s: %v", when, got)
		}
	}
	write := func(n int) {
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
		if _, err := a.qp.PostSend([]verbs.SendWR{wr}); err != nil {
			t.Fatal(err)
		}
	}
	unsent("at first", nil)
	write(8)
	unsent("posted", a.qp)
	o, e := NewOutbox(make([]byte, packet.MaxPacket), 1, 1), a.node.engine
	e.Transmit(0, o)
	unsent("taken", nil)
	write(8)
	unsent("posted while another goroutine sends", a.qp)
	for len(e.Transmit(0, o)) > 0 {
	}
	unsent("sent", nil)
	for range 4 {
		write(len(a.mem))
	}
	for len(e.Transmit(0, o)) > 0 {
	}
	if a.qp.req.cur == a.qp.req.tail {
		t.Error("the window is not full")
	}
	unsent("waiting for the peer", nil)
}

// TestReconnect moves a queue pair to RESET and connects it again with other PSNs.
func TestReconnect(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	wr := verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.sge(0, 20000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	for i := range 3 {
		wr.ID = uint64(i)
		a.send(wr)
		a.want(a.scq, wr.ID, verbs.WCSuccess, verbs.WCRDMARead)
		a.send(wr)
		net.step(never - 1) // some packets are still on their way
		for _, e := range []*end{a, b} {
			e.modify(qpstate.Attr{State: qpstate.Reset}, 0)
			e.opts.psn += 12345
		}
		a.connect(b)
		b.connect(a)
	}
	net.settle()
	if a.scq.Poll(make([]verbs.WC, 1)) != 0 {
		t.Error("the move to RESET completed a request")
	}
}

// TestRegionClosedUnderRead closes a region between a READ request and its response. The second
// case closes it before a repeated response. That request may be an old duplicate, so the peer
// gets a NAK, but the responder's queue pair goes on.
func TestRegionClosedUnderRead(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	read := verbs.SendWR{ID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	a.send(read)
	b.inject(a, packet.RCReadRequest, a.opts.psn, 0, func(p packet.Packet) { p.RETH().Set(b.mr.Addr(), b.mr.RKey(), 3000) })
	b.mr.Close()
	a.want(a.scq, 1, verbs.WCRemAccessErr, 0)
	b.wantState(qpstate.Error)
	b.wantEvent(verbs.EventQPAccessErr)
	net.settle()

	net, a, b = pair(t, 1, defaults())
	net.tap = func(from, _ *simnode, _ []byte) bool { return from == a.node }
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	for net.now < time.Millisecond && net.step(time.Millisecond) {
	}
	b.mr.Close()
	net.tap = nil
	a.want(a.scq, 1, verbs.WCRemAccessErr, 0)
	b.wantState(qpstate.RTS)
}
