package transport

import (
	"bytes"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// watch records the packets that a node sends.
type watch struct{ packets []packet.Packet }

func (n *simnet) watch(node *simnode) *watch {
	w := &watch{}
	n.tap = func(from, _ *simnode, raw []byte) bool {
		if from == node {
			p, err := packet.Parse(bytes.Clone(raw))
			if err != nil {
				n.tb.Error(err)
			}
			w.packets = append(w.packets, p)
		}
		return true
	}
	return w
}

// inject passes a packet to an end's engine as if its peer had sent it.
func (e *end) inject(peer *end, op packet.Opcode, psn uint32, payload int, set func(packet.Packet)) {
	e.node.net.tb.Helper()
	p, err := packet.Build(make([]byte, packet.MaxPacket), op, payload)
	if err != nil {
		e.node.net.tb.Fatal(err)
	}
	p.BTH().SetDestQPN(e.qp.QPN())
	p.BTH().SetPSN(packet.NewPSN(psn))
	if set != nil {
		set(p)
	}
	e.node.engine.Receive(e.node.net.now, []Datagram{{Data: p.Bytes(), Src: peer.node.addr, Dst: e.node.addr}})
}

func ack(s packet.Syndrome) func(packet.Packet) { return func(p packet.Packet) { p.AETH().Set(s, 0) } }

// TestOneACK checks that one packet acknowledges a batch of packets.
func TestOneACK(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	a.proven()
	w := net.watch(b.node)
	for range 20 {
		b.recv(verbs.RecvWR{})
		a.send(verbs.SendWR{Opcode: verbs.OpSend})
	}
	net.settle()
	if len(w.packets) != 1 {
		t.Errorf("%d packets answer one batch of 20 messages, want 1", len(w.packets))
	}
}

// TestAckReq checks which packets ask for an ACK: the last packet of a message, and one per
// quarter of the window.
func TestAckReq(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	a.proven()
	w := net.watch(a.node)
	a.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 40<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	net.settle()
	for i, p := range w.packets {
		if want := (i+1)%(firstWindow/1024/4) == 0 || i == 39; p.BTH().AckReq() != want {
			t.Errorf("packet %d of %d: AckReq %v", i, len(w.packets), !want)
		}
	}
}

// TestReadSplit checks that a large READ is split into several requests, of which at most
// MAX_QP_RD_ATOMIC are unanswered. After a loss the requester must ask again from the first
// missing packet.
func TestReadSplit(t *testing.T) {
	o := defaults()
	o.rdAtomic = 2
	net, a, b := pair(t, 1, o)
	fill(b.mem, 3)
	var requests []packet.Packet
	responses, unanswered := 0, 0
	net.tap = func(from, _ *simnode, raw []byte) bool {
		p, _ := packet.Parse(bytes.Clone(raw))
		if from == a.node {
			requests = append(requests, p)
			if unanswered++; responses < 20 && unanswered > 2 {
				t.Errorf("%d requests unanswered", unanswered)
			}
			return true
		}
		if p.Opcode().EndsMessage() {
			unanswered--
		}
		off := p.BTH().PSN().Sub(packet.PSN(o.psn))
		if first := p.Opcode() == packet.RCReadResponseFirst; first != (off%16 == 0) {
			t.Errorf("response packet %d has opcode %v", off, p.Opcode())
		}
		responses++
		return responses != 21
	}
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.sge(0, 60<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCRDMARead)
	if !bytes.Equal(a.mem[:60<<10], b.mem[:60<<10]) {
		t.Error("the READ fetched other bytes")
	}
	again := false
	for _, p := range requests {
		off := int(p.RETH().VA()-b.mr.Addr()) / 1024
		if psn := p.BTH().PSN().Sub(packet.PSN(o.psn)); psn != off {
			t.Errorf("request for packet %d has PSN %d", off, psn)
		}
		if off == 20 {
			again = true
			if n := p.RETH().DMALen(); n != 12<<10 {
				t.Errorf("the repeated request is for %d bytes, want those to the end of the request", n)
			}
		}
	}
	if !again || a.node.engine.Counter(Timeouts) != 0 {
		t.Errorf("the lost packet was requested again: %v; timeouts: %d", again, a.node.engine.Counter(Timeouts))
	}
}

// TestNoACKBeyondRead checks that a repeated request does not make the responder acknowledge
// more than the READ whose response was lost.
func TestNoACKBeyondRead(t *testing.T) {
	o := defaults()
	_, a, b := pair(t, 1, o)
	b.recv(verbs.RecvWR{}, verbs.RecvWR{})
	psn := a.opts.psn
	b.inject(a, packet.RCSendOnly, psn, 0, nil)
	b.inject(a, packet.RCReadRequest, psn+1, 0, func(p packet.Packet) { p.RETH().Set(b.mr.Addr(), b.mr.RKey(), 10) })
	b.inject(a, packet.RCSendOnly, psn+2, 0, nil)
	b.node.engine.Transmit(0, b.node.out) // lost
	b.node.engine.Transmit(0, b.node.out)
	b.inject(a, packet.RCSendOnly, psn, 0, func(p packet.Packet) { p.BTH().SetAckReq(true) })
	bursts := b.node.engine.Transmit(0, b.node.out)
	if len(bursts) != 1 {
		t.Fatal("the responder sent no answer")
	}
	p, _ := packet.Parse(bursts[0].Data)
	if p.Opcode() != packet.RCAcknowledge || p.BTH().PSN() != packet.NewPSN(psn) {
		t.Errorf("answer %v with PSN %#x, want an ACK of %#x", p.Opcode(), p.BTH().PSN(), psn)
	}
}

// TestReadResponseNames accepts a response whose packets are MIDDLE and LAST from the first on,
// as rxe sends when it resumes a response.
func TestReadResponseNames(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	net.tap = func(from, _ *simnode, _ []byte) bool { return from == b.node }
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.sge(0, 2500)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	net.transmit()
	psn := a.opts.psn
	a.inject(b, packet.RCReadResponseMiddle, psn, 1024, func(p packet.Packet) { fill(p.Payload(), 1) })
	a.inject(b, packet.RCReadResponseMiddle, psn+1, 1024, nil)
	a.inject(b, packet.RCReadResponseLast, psn+2, 452, ack(accepted))
	wc := a.want(a.scq, 1, verbs.WCSuccess, verbs.WCRDMARead)
	want := make([]byte, 1024)
	fill(want, 1)
	if wc.ByteLen != 2500 || !bytes.Equal(a.mem[:1024], want) {
		t.Errorf("%d bytes, %x…", wc.ByteLen, a.mem[:8])
	}
}

func TestBadResponse(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	net.tap = func(from, _ *simnode, _ []byte) bool { return false }
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.sge(0, 2500)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	net.transmit()
	a.inject(b, packet.RCReadResponseOnly, a.opts.psn, 1000, ack(accepted))
	a.want(a.scq, 1, verbs.WCBadRespErr, 0)
}

// TestRNRThenSequenceNAK sends NAK 0x60 after an RNR NAK, as rxe does. The wait must go on.
func TestRNRThenSequenceNAK(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	w := net.watch(a.node)
	b.node.asleep = time.Hour
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend}, verbs.SendWR{ID: 2, Opcode: verbs.OpSend})
	net.transmit()
	a.inject(b, packet.RCAcknowledge, a.opts.psn, 0, ack(packet.RNRSyndrome(14))) // 1.28 ms
	a.inject(b, packet.RCAcknowledge, a.opts.psn, 0, ack(packet.NAKPSNSequence))
	net.transmit()
	if len(w.packets) != 2 {
		t.Fatalf("%d packets during the wait", len(w.packets))
	}
	if at, ok := a.node.engine.Deadline(); !ok || at != 1280*time.Microsecond {
		t.Errorf("the wait ended at %v", at)
	}
	a.node.engine.Advance(1280 * time.Microsecond)
	net.transmit()
	if len(w.packets) != 4 {
		t.Errorf("%d packets after the wait, want both again", len(w.packets))
	}
}

// TestSequenceNAK checks that one lost packet causes one NAK and no timeout.
func TestSequenceNAK(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	a.proven()
	n := 0
	net.tap = func(from, _ *simnode, _ []byte) bool { n++; return n != 5 }
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 40<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCRDMAWrite)
	if naks, timeouts := b.node.engine.Counter(SequenceNAKs), a.node.engine.Counter(Timeouts); naks != 1 || timeouts != 0 {
		t.Errorf("%d NAKs, %d timeouts", naks, timeouts)
	}
}

// TestQueryFollowsThePSNs checks that a program can see by a query that requests have arrived.
func TestQueryFollowsThePSNs(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	before := b.qp.Query()
	a.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 20<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.want(a.scq, 0, verbs.WCSuccess, verbs.WCRDMAWrite)
	want := uint32(packet.NewPSN(before.RQPSN + 20))
	if got := b.qp.Query(); got.RQPSN != want || got.SQPSN != before.SQPSN || a.qp.Query().SQPSN != want {
		t.Errorf("rq_psn %#x, want %#x; sq_psn of the sender %#x", got.RQPSN, want, a.qp.Query().SQPSN)
	}
}

// TestInvalidRequests sends packets that break the rules of a message.
func TestInvalidRequests(t *testing.T) {
	type piece struct {
		op      packet.Opcode
		payload int
		dmaLen  uint32
	}
	for name, packets := range map[string][]piece{
		"MIDDLE without FIRST":        {{packet.RCSendMiddle, 1024, 0}},
		"LAST of another operation":   {{packet.RCSendFirst, 1024, 0}, {packet.RCWriteLast, 10, 0}},
		"FIRST in a message":          {{packet.RCSendFirst, 1024, 0}, {packet.RCSendFirst, 1024, 0}},
		"READ in a message":           {{packet.RCSendFirst, 1024, 0}, {packet.RCReadRequest, 0, 10}},
		"FIRST below the MTU":         {{packet.RCSendFirst, 1020, 0}},
		"ONLY above the MTU":          {{packet.RCSendOnly, 1028, 0}},
		"WRITE longer than its RETH":  {{packet.RCWriteOnly, 8, 7}},
		"WRITE shorter than its RETH": {{packet.RCWriteOnly, 8, 9}},
		"WRITE that ends too soon":    {{packet.RCWriteFirst, 1024, 3000}, {packet.RCWriteLast, 10, 0}},
		"WRITE that does not end":     {{packet.RCWriteFirst, 1024, 1025}, {packet.RCWriteMiddle, 1024, 0}},
		"unaligned atomic":            {{packet.RCFetchAdd, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			net, a, b := pair(t, 1, defaults())
			b.recv(verbs.RecvWR{SGL: []verbs.SGE{b.sge(0, 10000)}})
			for i, p := range packets {
				b.inject(a, p.op, a.opts.psn+uint32(i), p.payload, func(q packet.Packet) {
					if h := q.RETH(); h != nil {
						h.Set(b.mr.Addr(), b.mr.RKey(), p.dmaLen)
					}
					if h := q.AtomicETH(); h != nil {
						h.Set(b.mr.Addr()+4, b.mr.RKey(), 0, 0)
					}
				})
			}
			w := net.watch(b.node)
			net.transmit()
			b.wantState(qpstate.Error)
			if len(w.packets) != 1 || w.packets[0].AETH() == nil || w.packets[0].AETH().Syndrome() != packet.NAKInvalidRequest {
				t.Errorf("answers: %v", w.packets)
			}
		})
	}
}

// TestSQD drains a send queue: started requests complete, others wait.
func TestSQD(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	wr := verbs.SendWR{ID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 60<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	a.send(wr)
	net.transmit()
	a.modify(qpstate.Attr{State: qpstate.SQD, EnSQDAsyncNotify: true}, qpstate.MaskEnSQDAsyncNotify)
	wr.ID = 2
	a.send(wr)
	if q := a.qp.Query(); !q.SQDraining {
		t.Error("the send queue is not draining")
	}
	early := qpstate.Attr{State: qpstate.RTS}
	if err := a.qp.Modify(&early, qpstate.MaskState); err == nil {
		t.Error("SQD→RTS was accepted while the queue was draining")
	}
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCRDMAWrite)
	net.settle()
	a.wantEvent(verbs.EventSQDrained)
	if q := a.qp.Query(); q.SQDraining || q.State != qpstate.SQD || a.scq.Poll(make([]verbs.WC, 1)) != 0 {
		t.Error("a new request was started in SQD")
	}
	a.modify(qpstate.Attr{State: qpstate.SQD, Timeout: 14, RetryCnt: 1}, qpstate.MaskTimeout|qpstate.MaskRetryCnt)
	a.modify(qpstate.Attr{State: qpstate.RTS}, 0)
	a.want(a.scq, 2, verbs.WCSuccess, verbs.WCRDMAWrite)

	a.modify(qpstate.Attr{State: qpstate.SQD, EnSQDAsyncNotify: true}, qpstate.MaskEnSQDAsyncNotify)
	a.wantEvent(verbs.EventSQDrained) // nothing had to be drained
}

// TestRdAtomicChangedInSQD changes how many READs and atomics the peer may have in flight. The
// ACK that is due must still be sent. A repeated request whose answer was lost must get the
// same answer again.
func TestRdAtomicChangedInSQD(t *testing.T) {
	for _, to := range []uint8{8, 4, 1, 0} {
		net, a, b := pair(t, 1, defaults())
		for i := range b.mem[:8] {
			b.mem[i] = 0
		}
		psn := a.opts.psn
		add := func(i uint32) {
			b.inject(a, packet.RCFetchAdd, psn+i, 0, func(p packet.Packet) { p.AtomicETH().Set(b.mr.Addr(), b.mr.RKey(), 1, 0) })
		}
		for i := range uint32(4) { // as many as the peer may send
			add(i)
		}
		lost := net.watch(b.node)
		net.transmit()
		b.recv(verbs.RecvWR{ID: 1})
		b.inject(a, packet.RCSendOnly, psn+4, 0, func(p packet.Packet) { p.BTH().SetAckReq(true) })
		b.modify(qpstate.Attr{State: qpstate.SQD}, 0)
		b.modify(qpstate.Attr{State: qpstate.SQD, MaxDestRdAtomic: to}, qpstate.MaskMaxDestRdAtomic)
		if q := b.qp.Query(); q.MaxDestRdAtomic != to {
			t.Fatalf("MAX_DEST_RD_ATOMIC is %d, want %d", q.MaxDestRdAtomic, to)
		}
		w := net.watch(b.node)
		net.transmit()
		if len(w.packets) != 1 || w.packets[0].Opcode() != packet.RCAcknowledge || w.packets[0].BTH().PSN() != packet.NewPSN(psn+4) {
			t.Errorf("to %d: want the ACK that is due, got %v", to, w.packets)
		}
		for i := range uint32(4) {
			add(i) // repeated
		}
		net.transmit()
		if len(w.packets) != 1+4 || len(lost.packets) != 4 {
			t.Fatalf("to %d: %d answers to 4 atomics, and %d to the repeated ones", to, len(lost.packets), len(w.packets)-1)
		}
		for i, p := range w.packets[1:] {
			if p.AtomicAckETH() == nil || p.BTH().PSN() != packet.NewPSN(psn+uint32(i)) || p.AtomicAckETH().Orig() != lost.packets[i].AtomicAckETH().Orig() {
				t.Errorf("to %d: repeated answer %d differs: %v", to, i, p.Bytes())
			}
		}
		b.modify(qpstate.Attr{State: qpstate.RTS}, 0)
		add(5) // a new atomic, after the SEND
		net.transmit()
		b.wantState(map[bool]qpstate.State{true: qpstate.RTS, false: qpstate.Error}[to > 0])
	}
}

func TestCommEstablished(t *testing.T) {
	n := newSimnet(t, 1)
	a, b := n.node("10.0.0.1").end(defaults()), n.node("10.0.0.2").end(defaults())
	b.toRTR(a)
	a.connect(b)
	b.recv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2})
	a.send(verbs.SendWR{Opcode: verbs.OpSend}, verbs.SendWR{Opcode: verbs.OpSend})
	b.want(b.rcq, 1, verbs.WCSuccess, verbs.WCRecv)
	b.wantEvent(verbs.EventCommEst)
	n.settle()
	if len(b.node.events) != 0 {
		t.Error("more than one event")
	}
}

// TestStrangers sends packets that must be dropped without an answer.
func TestStrangers(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	b.recv(verbs.RecvWR{ID: 1})
	e := b.node.engine
	dropped := func(c Counter, what string) {
		t.Helper()
		if e.Counter(c) == 0 {
			t.Errorf("%s was not dropped", what)
		}
		e.counters[c].Store(0)
		if len(e.Transmit(0, b.node.out)) != 0 {
			t.Errorf("%s was answered", what)
		}
		b.wantState(qpstate.RTS)
	}
	psn := a.opts.psn
	b.inject(a, packet.RCSendOnly, psn, 0, func(p packet.Packet) { p.BTH().SetPKey(0x1234) })
	dropped(DropMismatch, "another partition")
	b.inject(b, packet.RCSendOnly, psn, 0, nil)
	dropped(DropMismatch, "another sender")
	b.inject(a, packet.UCSendOnly, psn, 0, nil)
	dropped(DropMismatch, "another transport")
	b.inject(a, packet.RCSendOnly, psn, 0, func(p packet.Packet) { p.BTH().SetDestQPN(b.qp.QPN() ^ 1) })
	dropped(DropNoQP, "another queue pair")
	b.inject(a, packet.CongestionNotification, 0, 16, nil)
	dropped(CongestionNotes, "a CNP")
	b.inject(a, packet.RCAcknowledge, b.opts.psn, 0, ack(accepted))
	dropped(DropStray, "an ACK of nothing")
	e.Receive(0, []Datagram{{Data: []byte{1, 2, 3}}})
	dropped(DropMalformed, "noise")
	b.modify(qpstate.Attr{State: qpstate.Error}, 0)
	b.want(b.rcq, 1, verbs.WCWRFlushErr, 0)
	b.inject(a, packet.RCSendOnly, psn, 0, nil)
	if e.Counter(DropState) != 1 || len(e.Transmit(0, b.node.out)) != 0 {
		t.Error("a queue pair in ERR answers")
	}
}

// TestLengthsThatNoMessageHas uses lengths above 2³¹, which are negative in an int of 32 bits.
func TestLengthsThatNoMessageHas(t *testing.T) {
	for _, op := range []packet.Opcode{packet.RCWriteOnly, packet.RCWriteFirst, packet.RCReadRequest} {
		for _, length := range []uint32{1<<31 + 1, 1<<32 - 1} {
			_, a, b := pair(t, 1, defaults())
			payload := map[packet.Opcode]int{packet.RCWriteOnly: 4, packet.RCWriteFirst: 1024}[op]
			b.inject(a, op, a.opts.psn, payload, func(p packet.Packet) { p.RETH().Set(b.mr.Addr(), b.mr.RKey(), length) })
			b.wantState(qpstate.Error)
			b.wantEvent(verbs.EventQPReqErr)
		}
	}
	_, a, b := pair(t, 1, defaults())
	for _, length := range []uint32{10, 1<<32 - 1} {
		b.inject(a, packet.RCReadRequest, a.opts.psn, 0, func(p packet.Packet) { p.RETH().Set(b.mr.Addr(), b.mr.RKey(), length) })
	}
	if n := b.node.engine.Counter(DropStray); n != 1 {
		t.Errorf("%d packets were dropped, want 1: the repeated request with another length", n)
	}
}
