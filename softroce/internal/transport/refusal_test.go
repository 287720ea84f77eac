// Tests of refused requests: the responder's NAKs, and that they reach the requester although
// packets are lost.

package transport

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// syndromeOf returns the syndrome of a packet with an AETH, and an ACK's for other packets.
func syndromeOf(raw []byte) packet.Syndrome {
	if p, err := packet.Parse(raw); err == nil && p.AETH() != nil {
		return p.AETH().Syndrome()
	}
	return accepted
}

// TestNAKLostInTheMiddleOfARead closes the region after the response has begun. It loses the
// first NAK, and in some cases a packet of the response before it. The peer asks again from the
// first missing packet, which the responder has sent before.
func TestNAKLostInTheMiddleOfARead(t *testing.T) {
	for _, lost := range []int{0, 1, 5, 100} { // number of the lost packet of the response, from 1; 0: none
		n := newSimnet(t, 1)
		o := defaults()
		o.memory = 1 << 18
		a, b := n.nodeWith("fd00::1", Config{ReadChunk: 1 << 10}).end(o), n.node("fd00::2").end(o)
		a.connect(b)
		b.connect(a)
		responses, naks := 0, 0
		n.tap = func(from, _ *simnode, raw []byte) bool {
			switch {
			case from == a.node:
				return true
			case syndromeOf(raw).Kind() == packet.KindNAK:
				naks++
				return naks > 1
			}
			b.mr.Close()
			responses++
			return responses != lost
		}
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.sge(0, 200<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		a.want(a.scq, 1, verbs.WCRemAccessErr, 0)
		b.wantState(qpstate.Error)
		if responses < 100 || responses >= 200 || naks != 2 {
			t.Errorf("packet %d lost: %d packets of the response, %d NAKs", lost, responses, naks)
		}
	}
}

// TestAnswerLostBeforeANAK loses the answers to a READ or an atomic, and to a SEND. The request
// after them is refused. The responder's queue pair is in ERR and cannot answer the READ again,
// so it refuses the READ. The NAK acknowledges the SEND.
func TestAnswerLostBeforeANAK(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpRDMARead, verbs.OpAtomicFetchAndAdd, verbs.OpAtomicWrite, verbs.OpFlush, verbs.OpSend} {
		net, a, b := pair(t, 1, defaults())
		answered := false
		net.tap = func(from, _ *simnode, raw []byte) bool {
			nak := syndromeOf(raw).Kind() == packet.KindNAK
			answered = answered || from == b.node && !nak
			return from == a.node || nak
		}
		b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.sge(0, 8)}})
		wr := verbs.SendWR{ID: 1, Opcode: op, SGL: []verbs.SGE{a.sge(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
			Flush: verbs.Flush{Type: verbs.FlushGlobal, Length: 8}}
		a.send(wr)
		for net.step(time.Millisecond) && !answered {
		}
		a.send(verbs.SendWR{ID: 2, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() ^ 1})
		if op == verbs.OpSend {
			a.want(a.scq, 1, verbs.WCSuccess, verbs.WCSend)
			a.want(a.scq, 2, verbs.WCRemAccessErr, 0)
		} else {
			a.want(a.scq, 1, verbs.WCRemOpErr, 0)
			a.want(a.scq, 2, verbs.WCWRFlushErr, 0)
		}
		b.wantState(qpstate.Error)
	}
}

// TestEchoOfARead delivers an old READ request twice after its region was closed. The NAK must
// not end either queue pair, nor delay an ACK.
func TestEchoOfARead(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	other, err := b.pd.RegisterMR(alignedBytes(4096), allAccess)
	if err != nil {
		t.Fatal(err)
	}
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: other.Addr(), RKey: other.RKey()})
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCRDMARead)
	other.Close()
	b.recv(verbs.RecvWR{ID: 2})
	a.send(verbs.SendWR{ID: 2, Opcode: verbs.OpSend})
	echo := true
	net.tap = func(from, _ *simnode, raw []byte) bool {
		if from == a.node && echo {
			echo = false
			b.inject(a, packet.RCSendOnly, a.opts.psn+3, 0, func(p packet.Packet) { p.BTH().SetAckReq(true) })
			b.inject(a, packet.RCReadRequest, a.opts.psn, 0, func(p packet.Packet) { p.RETH().Set(other.Addr(), other.RKey(), 3000) })
			return false
		}
		return true
	}
	a.want(a.scq, 2, verbs.WCSuccess, verbs.WCSend)
	b.want(b.rcq, 2, verbs.WCSuccess, verbs.WCRecv)
	net.settle()
	a.wantState(qpstate.RTS)
	b.wantState(qpstate.RTS)
	if n := a.node.engine.Counter(Timeouts); n != 0 {
		t.Errorf("%d timeouts: the ACK was delayed", n)
	}
}

// malformed has malformed requests of RC, by the error that they contain.
var malformed = map[string]func(p packet.Packet) []byte{
	"reserved opcode 0x15":       func(p packet.Packet) []byte { p.BTH()[0] = 0x15; return p.Bytes() },
	"reserved opcode 0x1f":       func(p packet.Packet) []byte { p.BTH()[0] = 0x1f; return p.Bytes() },
	"pad without payload":        func(p packet.Packet) []byte { p.BTH()[1] |= 0x10; return p.Bytes() },
	"length not a multiple of 4": func(p packet.Packet) []byte { return append(p.Bytes(), 0) },
	"READ with a payload":        func(p packet.Packet) []byte { p.BTH()[0] = 0x0c; return append(p.Bytes(), make([]byte, 20)...) },
	"atomic with a payload":      func(p packet.Packet) []byte { p.BTH()[0] = 0x13; return append(p.Bytes(), make([]byte, 32)...) },
	"payload above 4096":         func(p packet.Packet) []byte { return append(p.Bytes(), make([]byte, 4100)...) },
	"payload of 9000":            func(p packet.Packet) []byte { return append(p.Bytes(), make([]byte, 9000)...) },
	"WRITE without its RETH":     func(p packet.Packet) []byte { p.BTH()[0] = 0x0a; return p.Bytes() },
	"atomic with half a header":  func(p packet.Packet) []byte { p.BTH()[0] = 0x14; return append(p.Bytes(), make([]byte, 12)...) },
}

// injectBytes passes a datagram to an end's engine. make changes a SEND ONLY without payload
// into it.
func (e *end) injectBytes(peer *end, psn uint32, make func(packet.Packet) []byte) {
	e.node.net.tb.Helper()
	p, err := packet.Build(append([]byte(nil), emptySend[:]...), packet.RCSendOnly, 0)
	if err != nil {
		e.node.net.tb.Fatal(err)
	}
	p.BTH().SetDestQPN(e.qp.QPN())
	p.BTH().SetPSN(packet.NewPSN(psn))
	e.node.engine.Receive(e.node.net.now, []Datagram{{Data: make(p), Src: peer.node.addr, Dst: e.node.addr}})
}

var emptySend [16]byte

// TestMalformedRequests checks that RC answers its peer with a NAK, and repeats a lost NAK.
func TestMalformedRequests(t *testing.T) {
	for name, spoil := range malformed {
		t.Run(name, func(t *testing.T) {
			net, a, b := pair(t, 1, defaults())
			w := net.watch(b.node)
			b.recv(verbs.RecvWR{ID: 1})
			for range 2 {
				b.injectBytes(a, a.opts.psn, spoil)
				net.transmit()
			}
			b.wantState(qpstate.Error)
			b.wantEvent(verbs.EventQPReqErr)
			b.want(b.rcq, 1, verbs.WCWRFlushErr, 0)
			if len(w.packets) != 2 {
				t.Fatalf("%d answers, want two NAKs", len(w.packets))
			}
			for _, p := range w.packets {
				if h := p.AETH(); h == nil || h.Syndrome() != packet.NAKInvalidRequest || p.BTH().PSN() != packet.NewPSN(a.opts.psn) {
					t.Errorf("the answer is %v % x, want a NAK", p.Opcode(), p.Bytes())
				}
			}
		})
	}
}

// TestMalformedAndIgnored checks that some malformed packets are dropped. A NAK ends the queue
// pair, so packets from strangers, packets with an unexpected number and answers must not cause
// one.
func TestMalformedAndIgnored(t *testing.T) {
	ignored := func(name string, e, from *end, psn uint32, spoil func(packet.Packet) []byte) {
		t.Helper()
		before := e.node.engine.Counter(DropMalformed) + e.node.engine.Counter(DropMismatch)
		e.injectBytes(from, psn, spoil)
		if len(e.node.engine.Transmit(0, e.node.out)) != 0 {
			t.Errorf("%s: the packet was answered", name)
		}
		e.wantState(qpstate.RTS)
		if e.node.engine.Counter(DropMalformed)+e.node.engine.Counter(DropMismatch) != before+1 {
			t.Errorf("%s: the packet was not counted", name)
		}
	}
	for name, spoil := range malformed {
		_, a, b := pair(t, 1, defaults())
		psn := a.opts.psn
		ignored(name+" from a stranger", b, b, psn, spoil)
		ignored(name+" too early", b, a, psn+1, spoil)
		ignored(name+" too late", b, a, psn-1, spoil)
		ignored(name+" of another partition", b, a, psn, func(p packet.Packet) []byte { p.BTH().SetPKey(0x1234); return spoil(p) })
		ignored(name+" of version 1", b, a, psn, func(p packet.Packet) []byte { p.BTH()[1] |= 1; return spoil(p) })
		_, c, d := pair(t, 1, ucOptions())
		ignored(name+" to UC", d, c, psn, spoil)
		_, c, d = udPair(t, "10.0.0.1", "10.0.0.2")
		ignored(name+" to UD", d, c, psn, spoil)
	}
	_, a, b := pair(t, 1, defaults())
	ignored("an ACK with a payload", b, a, a.opts.psn, func(p packet.Packet) []byte {
		p.BTH()[0] = byte(packet.RCAcknowledge)
		return append(p.Bytes(), make([]byte, 8)...)
	})
	ignored("an opcode of UC", b, a, a.opts.psn, func(p packet.Packet) []byte { p.BTH()[0] = 0x2c; return p.Bytes() })
}
