// Tests of recovery before the ACK timeout: what is sent again, and that no timeout is needed.

package transport

import (
	"bytes"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// recoveryPair returns two connected ends. The requester recovers; the responder buffers packets if
// reorder is not 0. The round trip is measured already.
func recoveryPair(t *testing.T, reorder int) (*simnet, *end, *end) {
	o := defaults()
	o.timeout, o.memory = 20, 1<<18 // four seconds
	o.rdAtomic = 16
	n := newSimnet(t, 1)
	a, b := n.nodeWith("fd00::1", Config{Reorder: 64}).end(o), n.nodeWith("fd00::2", Config{Reorder: reorder}).end(o)
	a.connect(b)
	b.connect(a)
	a.move(b, verbs.OpRDMAWrite, 1024)
	return n, a, b
}

// move executes a READ or WRITE of n bytes, and checks the bytes.
func (e *end) move(to *end, op verbs.Opcode, n int) {
	e.node.net.tb.Helper()
	fill(e.mem[:n], 1)
	fill(to.mem[:n], 2)
	e.send(verbs.SendWR{ID: 7, Opcode: op, SGL: []verbs.SGE{e.sge(0, n)}, RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey()})
	done := verbs.WCRDMAWrite
	if op == verbs.OpRDMARead {
		done = verbs.WCRDMARead
	}
	e.want(e.scq, 7, verbs.WCSuccess, done)
	if !bytes.Equal(e.mem[:n], to.mem[:n]) {
		e.node.net.tb.Error("the memories differ")
	}
}

// lose drops the packets of a node for which drop returns true, and counts the node's others by
// PSN.
func (n *simnet) lose(from *end, drop func(p packet.Packet) bool) map[packet.PSN]int {
	sent := map[packet.PSN]int{}
	n.tap = func(s, _ *simnode, raw []byte) bool {
		if s != from.node {
			return true
		}
		p, err := packet.Parse(raw)
		if err != nil {
			n.tb.Fatal(err)
		}
		sent[p.BTH().PSN()]++
		return !drop(p)
	}
	return sent
}

// once returns a function that is true once for a PSN.
func once(psn packet.PSN) func(packet.Packet) bool {
	done := false
	return func(p packet.Packet) bool {
		hit := !done && p.BTH().PSN() == psn
		done = done || hit
		return hit
	}
}

func (n *simnet) wantNoTimeout(ends ...*end) {
	n.tb.Helper()
	for _, e := range ends {
		if c := e.node.engine.Counter(Timeouts); c > 0 {
			n.tb.Errorf("%d timeouts", c)
		}
	}
}

// psn returns the number of packet i after the first message of recoveryPair.
func (e *end) psn(i int) packet.PSN { return packet.NewPSN(e.opts.psn + 1 + uint32(i)) }

// TestOnlyTheLostPacketAgain loses one packet of a WRITE. A responder that buffers packets gets only
// that packet again. For another one, the requester goes back, and does so at once the next time.
func TestOnlyTheLostPacketAgain(t *testing.T) {
	const packets = 40
	for _, reorder := range []int{64, 0} {
		n, a, b := recoveryPair(t, reorder)
		for round := range 3 {
			base := round * packets
			sent := n.lose(a, once(a.psn(base+5)))
			a.move(b, verbs.OpRDMAWrite, packets*1024)
			again := 0
			for i := range packets {
				again += sent[a.psn(base+i)] - 1
			}
			switch {
			case reorder > 0 && again != 1:
				t.Errorf("round %d: %d packets were sent again to a responder that buffers packets", round, again)
			case reorder == 0 && round == 1 && a.qp.req.responder != goesBack:
				t.Error("the requester did not learn that the responder buffers nothing")
			case reorder == 0 && round == 2 && sent[a.psn(base+5)] != 2:
				t.Errorf("packet 5 was sent %d times", sent[a.psn(base+5)])
			}
		}
		n.wantNoTimeout(a, b)
	}
}

// TestTailLost loses the last packets of a WRITE. That says nothing of the responder: of the next WRITE, only
// the lost packet is sent again.
func TestTailLost(t *testing.T) {
	const packets = 40
	n, a, b := recoveryPair(t, 64)
	lost := map[packet.PSN]bool{}
	n.lose(a, func(p packet.Packet) bool {
		psn := p.BTH().PSN()
		first := psn.Sub(a.psn(5)) >= 0 && !lost[psn]
		lost[psn] = true
		return first
	})
	a.move(b, verbs.OpRDMAWrite, packets*1024)
	sent := n.lose(a, once(a.psn(packets+5)))
	a.move(b, verbs.OpRDMAWrite, packets*1024)
	again := 0
	for i := range packets {
		again += sent[a.psn(packets+i)] - 1
	}
	if again != 1 || a.qp.req.responder != buffersPackets {
		t.Errorf("%d packets were sent again, want 1; the responder is %d, want %d", again, a.qp.req.responder, buffersPackets)
	}
	n.wantNoTimeout(a, b)
}

// TestProbe loses the last packet of a WRITE, so that no NAK comes, and then the ACK of the next.
func TestProbe(t *testing.T) {
	for _, reorder := range []int{64, 0} {
		n, a, b := recoveryPair(t, reorder)
		start := n.now
		n.lose(a, once(a.psn(7)))
		a.move(b, verbs.OpRDMAWrite, 8*1024)
		n.lose(b, once(a.psn(15)))
		a.move(b, verbs.OpRDMAWrite, 8*1024)
		n.wantNoTimeout(a, b)
		if took := n.now - start; took > 5*tailProbeLeast {
			t.Errorf("two losses took %v", took)
		}
		if a.node.engine.Counter(Probes) == 0 {
			t.Error("no probe was sent")
		}
	}
}

// TestLostNAK loses a packet and the NAK that reports it.
func TestLostNAK(t *testing.T) {
	for _, reorder := range []int{64, 0} {
		n, a, b := recoveryPair(t, reorder)
		data, nak := once(a.psn(3)), once(a.psn(3))
		n.tap = func(from, _ *simnode, raw []byte) bool {
			p, _ := packet.Parse(raw)
			if from == a.node {
				return !data(p)
			}
			return p.AETH().Syndrome() != packet.NAKPSNSequence || !nak(p)
		}
		a.move(b, verbs.OpRDMAWrite, 40*1024)
		n.wantNoTimeout(a, b)
	}
}

// TestLostAgain loses a packet three times.
func TestLostAgain(t *testing.T) {
	for _, reorder := range []int{64, 0} {
		n, a, b := recoveryPair(t, reorder)
		lost := 0
		n.lose(a, func(p packet.Packet) bool {
			if p.BTH().PSN() == a.psn(3) && lost < 3 {
				lost++
				return true
			}
			return false
		})
		start := n.now
		a.move(b, verbs.OpRDMAWrite, 40*1024)
		n.wantNoTimeout(a, b)
		if took := n.now - start; took > 20*time.Millisecond {
			t.Errorf("three losses of one packet took %v", took)
		}
	}
}

// TestReadAsksForMissing loses responses of a READ: in the middle of a request, at its end, and a
// whole request. The requester asks only for the missing ones, from every responder.
func TestReadAsksForMissing(t *testing.T) {
	for _, reorder := range []int{64, 0} {
		n, a, b := recoveryPair(t, reorder)
		gone := map[packet.PSN]bool{a.psn(3): true, a.psn(5): true, a.psn(31): true}
		sent := n.lose(b, func(p packet.Packet) bool {
			hit := gone[p.BTH().PSN()]
			delete(gone, p.BTH().PSN())
			return hit
		})
		a.move(b, verbs.OpRDMARead, 64*1024)
		again := 0
		for i := range 64 {
			again += sent[a.psn(i)] - 1
		}
		if again != 4 { // 3 to 5, and 31
			t.Errorf("%d responses were sent again, want 4", again)
		}
		n.lose(a, once(a.psn(64+16)))
		a.move(b, verbs.OpRDMARead, 64*1024)
		n.wantNoTimeout(a, b)
	}
}

// TestLateNotLost reorders packets: the ACK of a packet comes right behind the NAK that reports it missing,
// before it is sent again. So it is not sent again, and nothing is learned of the responder.
func TestLateNotLost(t *testing.T) {
	for _, acked := range []int{5, 39} {
		n, a, b := recoveryPair(t, 0)
		sent := n.lose(a, func(packet.Packet) bool { return true })
		a.write(b, 40*1024)
		n.transmit()
		a.inject(b, packet.RCAcknowledge, uint32(a.psn(5)), 0, ack(packet.NAKPSNSequence))
		a.inject(b, packet.RCAcknowledge, uint32(a.psn(acked)), 0, ack(accepted))
		n.transmit()
		a.write(b, 40*1024)
		n.transmit()
		for i := range 64 {
			if k := sent[a.psn(i)]; k > 1 {
				t.Errorf("packet %d was sent %d times", i, k)
			}
		}
		if kind := a.qp.req.responder; kind != unknownResponder || a.qp.req.hold {
			t.Errorf("the responder is %d, want unknown; hold is %v", kind, a.qp.req.hold)
		}
	}
}

// TestMistakenResponder sends to a responder that buffers nothing, though the requester believes that it buffers
// packets. Reordered packets can lead to that. It must not send all packets again one by one.
func TestMistakenResponder(t *testing.T) {
	const packets = 200
	n, a, b := recoveryPair(t, 0)
	a.qp.req.responder = buffersPackets
	sent := n.lose(a, once(a.psn(5)))
	start := n.now
	a.move(b, verbs.OpRDMAWrite, packets*1024)
	again := 0
	for i := range packets {
		again += sent[a.psn(i)] - 1
	}
	if took := n.now - start; took > 5*time.Millisecond {
		t.Errorf("one loss in %d packets took %v; %d packets were sent again", packets, took, again)
	}
	n.wantNoTimeout(a, b)
}

// TestReorderBufferIsReleased ends queue pairs that buffer packets, and checks that the pool has them again.
func TestReorderBufferIsReleased(t *testing.T) {
	for name, end := range map[string]func(*end){
		"error": func(e *end) { e.modify(qpstate.Attr{State: qpstate.Error}, 0) },
		"reset": func(e *end) { e.modify(qpstate.Attr{State: qpstate.Reset}, 0) },
		"close": func(e *end) { _ = e.qp.Close() },
	} {
		n, a, b := recoveryPair(t, 8)
		n.lose(a, func(p packet.Packet) bool { return p.BTH().PSN() == a.psn(0) })
		a.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 32*1024)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		n.run(time.Second, func() bool { return b.node.engine.Counter(DropStray) > 0 })
		if used := b.node.engine.reorder.used; used != 8 {
			t.Errorf("%d packets are buffered, want 8", used)
		}
		end(b)
		if used := b.node.engine.reorder.used; used != 0 {
			t.Errorf("%s: %d packets are still buffered", name, used)
		}
	}
}

// TestReorderPoolIsGivenBack fills the pool of buffers, and empties it.
func TestReorderPoolIsGivenBack(t *testing.T) {
	var pool reorderPool
	const most = 4 * spare
	var used [][]byte
	for range most {
		used = append(used, pool.take(most))
	}
	if pool.take(most) != nil {
		t.Errorf("the pool gave more than %d buffers", most)
	}
	for _, raw := range used {
		pool.release(raw)
	}
	if pool.used != 0 || len(pool.free) != spare {
		t.Errorf("%d buffers are in use and %d are spare, want none and %d", pool.used, len(pool.free), spare)
	}
}
