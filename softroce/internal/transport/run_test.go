package transport

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestRuns sends long messages from and to lists whose elements begin and end within packets. Some packets get lost.
func TestRuns(t *testing.T) {
	pieces := func(e *end) (sgl []verbs.SGE) {
		off := 1
		for _, n := range []int{1, 1500, 9, 20_000, 11_258} {
			sgl, off = append(sgl, e.sge(off, n)), off+n+3
		}
		return sgl
	}
	const length = 1 + 1500 + 9 + 20_000 + 11_258
	gathered := func(e *end) (b []byte) {
		for _, s := range pieces(e) {
			b = append(b, e.mem[s.Addr-e.mr.Addr():][:s.Length]...)
		}
		return b
	}
	o := defaults()
	o.cap.MaxSendSGE, o.cap.MaxRecvSGE, o.timeout = 5, 5, 14
	for _, loss := range []float64{0, 0.05} {
		n, a, b := pair(t, 3, o)
		a.proven()
		b.proven()
		n.faults.Loss = loss
		remote := verbs.SendWR{RemoteAddr: b.mr.Addr() + 7, RKey: b.mr.RKey()}
		for i := range uint64(3) {
			for k := range a.mem {
				a.mem[k], b.mem[k] = byte(n.rng.Uint32()), byte(n.rng.Uint32())
			}
			write, read := remote, remote
			write.ID, write.Opcode, write.SGL = 1, verbs.OpRDMAWrite, pieces(a)
			a.send(write)
			a.want(a.scq, 1, verbs.WCSuccess, verbs.WCRDMAWrite)
			if !bytes.Equal(b.mem[7:7+length], gathered(a)) {
				t.Fatalf("loss %v, %d: the WRITE changed the data", loss, i)
			}
			b.recv(verbs.RecvWR{ID: 2, SGL: pieces(b)})
			a.send(verbs.SendWR{ID: 3, Opcode: verbs.OpSend, SGL: pieces(a)})
			b.want(b.rcq, 2, verbs.WCSuccess, verbs.WCRecv)
			a.want(a.scq, 3, verbs.WCSuccess, verbs.WCSend)
			if !bytes.Equal(gathered(b), gathered(a)) {
				t.Fatalf("loss %v, %d: the SEND changed the data", loss, i)
			}
			for k := range b.mem {
				b.mem[k] = byte(n.rng.Uint32())
			}
			read.ID, read.Opcode, read.SGL = 4, verbs.OpRDMARead, pieces(a)
			a.send(read)
			a.want(a.scq, 4, verbs.WCSuccess, verbs.WCRDMARead)
			if !bytes.Equal(b.mem[7:7+length], gathered(a)) {
				t.Fatalf("loss %v, %d: the READ changed the data", loss, i)
			}
		}
	}
}

// TestRunLengths checks how many packets a run has: all between the first and the last packet of a message, up to one that
// asks for an ACK, and none while something else must leave first.
func TestRunLengths(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	a.proven()
	a.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 20<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	buf := make([]byte, maxBurst)
	built := func(segment, most int) int {
		a.qp.mu.Lock()
		defer a.qp.unlock()
		n, _, _ := a.qp.buildRun(buf, segment, most, 0)
		return n
	}
	if n := built(0, 64); n != 0 {
		t.Errorf("a run of %d packets before the first one", n)
	}
	first := a.node.engine.Transmit(0, NewOutbox(buf, 1, 1))
	if len(first) != 1 {
		t.Fatal("the first packet does not leave")
	}
	if n := built(first[0].Segment, 64); n != 0 {
		t.Errorf("%d packets behind one of another size", n)
	}
	if n := built(0, 3); n != 3 {
		t.Errorf("%d packets, want 3", n)
	}
	a.qp.resp.ackDue = true
	if n := built(0, 64); n != 0 {
		t.Errorf("%d packets before an ACK", n)
	}
	a.qp.resp.ackDue = false
	if n := built(0, 64); n != firstWindow/1024/4-4 {
		t.Errorf("%d packets, want all until one asks for an ACK", n)
	}
	if n := built(0, 64); n != 20-firstWindow/1024/4-1 {
		t.Errorf("%d packets, want all but the last", n)
	}
	if n := built(0, 64); n != 0 {
		t.Errorf("a run of %d packets at the end", n)
	}
}

// TestAlike checks which packets are taken for a run.
func TestAlike(t *testing.T) {
	here, there := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	made := func(op packet.Opcode, psn uint32, ask bool) Datagram {
		p, err := packet.Build(make([]byte, packet.MaxPacket), op, 1024)
		if err != nil {
			t.Fatal(err)
		}
		p.BTH().SetDestQPN(7)
		p.BTH().SetPSN(packet.NewPSN(psn))
		p.BTH().SetAckReq(ask)
		return Datagram{Data: p.Bytes(), Src: here, Dst: there}
	}
	plain := func(psn uint32) Datagram { return made(packet.RCWriteMiddle, psn, false) }
	other := func(change func(*Datagram)) Datagram {
		d := plain(2)
		change(&d)
		return d
	}
	for name, c := range map[string]struct {
		second Datagram
		want   int // of the first packet, this one, and a third one
	}{
		"alike":          {plain(2), 3},
		"asks":           {made(packet.RCWriteMiddle, 2, true), 2},
		"a gap":          {plain(3), 1},
		"another opcode": {made(packet.RCSendMiddle, 2, false), 1},
		"the last":       {made(packet.RCWriteLast, 2, false), 1},
		"shorter":        {other(func(d *Datagram) { d.Data = d.Data[:len(d.Data)-4] }), 1},
		"too short":      {other(func(d *Datagram) { d.Data = d.Data[:4] }), 1},
		"another source": {other(func(d *Datagram) { d.Src = there }), 1},
		"another target": {other(func(d *Datagram) { d.Dst = here }), 1},
		"marked":         {other(func(d *Datagram) { d.TOS = ecnCongested }), 1},
		"BECN":           {other(func(d *Datagram) { (*packet.BTH)(d.Data).SetBECN(true) }), 1},
		"another QP":     {other(func(d *Datagram) { (*packet.BTH)(d.Data).SetDestQPN(8) }), 1},
		"P_Key":          {other(func(d *Datagram) { (*packet.BTH)(d.Data).SetPKey(1) }), 1},
	} {
		if n := alike([]Datagram{plain(1), c.second, plain(3)}); n != c.want {
			t.Errorf("%s: a run of %d packets, want %d", name, n, c.want)
		}
	}
	for name, d := range map[string]Datagram{
		"no bytes": {}, "asks": made(packet.RCWriteMiddle, 1, true), "the first": made(packet.RCWriteFirst, 1, false),
		"UC": made(packet.UCWriteMiddle, 1, false),
	} {
		if n := alike([]Datagram{d, plain(2)}); n != 0 {
			t.Errorf("%s first: a run of %d packets", name, n)
		}
	}
}

// TestRunBeyondTheRegion closes the peer's region within a message: the rest is refused, as packet by packet.
func TestRunBeyondTheRegion(t *testing.T) {
	n, a, b := pair(t, 1, defaults())
	a.proven()
	sent := 0
	n.tap = func(from, _ *simnode, raw []byte) bool {
		if from == a.node {
			if sent++; sent == 20 {
				if err := b.mr.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		return true
	}
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 60<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.want(a.scq, 1, verbs.WCRemAccessErr, 0)
	a.wantState(qpstate.Error)
}

// TestSendRunTooLong: a SEND is longer than its receive. The packets that fit are stored, and the next one is refused.
func TestSendRunTooLong(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	a.proven()
	for i := range a.mem {
		a.mem[i] = byte(i>>8) + 1
	}
	const fits = 10<<10 + 100
	b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.sge(0, fits)}})
	a.send(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 30<<10)}})
	b.want(b.rcq, 1, verbs.WCLocLenErr, 0)
	a.want(a.scq, 2, verbs.WCRemInvReqErr, 0)
	if !bytes.Equal(b.mem[:10<<10], a.mem[:10<<10]) || slices.ContainsFunc(b.mem[fits:], func(v byte) bool { return v != 0 }) {
		t.Error("the receive has other bytes than those that fit")
	}
}

// TestAskedLate: within a host the last packet of an unsignaled request does not ask for an ACK if another request follows. If
// that one then sends nothing, the ACK is asked for, without a timer.
func TestAskedLate(t *testing.T) {
	o := defaults()
	o.sigAll, o.timeout = false, 0
	joined := func() (n *simnet, a, b *end, write verbs.SendWR) {
		n = newSimnet(t, 1)
		n.room = packet.MaxPacket // one packet at once
		x, y := n.node("fd00::1"), n.node("fd00::2")
		x.joined, y.joined = true, true
		a, b = x.end(o), y.end(o)
		a.connect(b)
		b.connect(a)
		a.proven()
		return n, a, b, verbs.SendWR{ID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	}
	_, a, _, write := joined()
	bad := write
	bad.ID, bad.SGL = 2, []verbs.SGE{{Addr: a.mr.Addr(), Length: 8, LKey: a.mr.LKey() + 1}}
	a.send(write, bad)
	a.want(a.scq, 2, verbs.WCLocProtErr, 0)

	n, a, _, write := joined()
	sent := 0
	n.tap = func(from, _ *simnode, _ []byte) bool {
		if from == a.node {
			if sent++; sent == 3 {
				a.modify(qpstate.Attr{State: qpstate.SQD, EnSQDAsyncNotify: true}, qpstate.MaskEnSQDAsyncNotify)
			}
		}
		return true
	}
	a.send(write, write)
	n.run(time.Hour, func() bool { return len(a.node.events) > 0 })
	a.wantEvent(verbs.EventSQDrained)
}
