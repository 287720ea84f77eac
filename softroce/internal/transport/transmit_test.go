package transport

import (
	"testing"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestNobodyForgotten puts many queue pairs with nothing to send before one with a packet. An
// Outbox for one burst must still get that packet.
func TestNobodyForgotten(t *testing.T) {
	n := newSimnet(t, 1)
	s, peer := n.node("10.0.0.1"), n.node("10.0.0.2")
	o := defaults()
	var last *end
	for range 100 {
		last = s.end(o)
		last.connect(peer.end(o))
	}
	last.send(verbs.SendWR{Opcode: verbs.OpSend})
	if got := s.engine.Transmit(0, NewOutbox(make([]byte, packet.MaxPacket), 1, 1)); len(got) != 1 {
		t.Errorf("%d bursts, want 1", len(got))
	}
}

// TestHeld checks that only one Outbox at a time holds a queue pair.
func TestHeld(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	e := a.node.engine
	one := func() *Outbox { return NewOutbox(make([]byte, packet.MaxPacket), 1, 1) }
	first, second := one(), one()
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 2048)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	a.send(wr)
	if len(e.Transmit(0, first)) != 1 || len(e.Transmit(0, second)) != 0 {
		t.Fatal("two outboxes hold the queue pair")
	}
	a.send(wr)
	if len(e.Transmit(0, second)) != 0 {
		t.Fatal("two outboxes hold the queue pair")
	}
	for i := range 3 {
		if len(e.Transmit(0, first)) != 1 {
			t.Fatalf("%d packets, want 4", i+1)
		}
	}
	if len(e.Transmit(0, first)) != 0 || len(e.Transmit(0, second)) != 0 {
		t.Error("more packets than two messages need")
	}
}

// TestBurst checks that all packets of a burst have the same length, except the last.
func TestBurst(t *testing.T) {
	o := defaults()
	o.mtu = qpstate.MTU4096
	_, a, b := pair(t, 1, o)
	a.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 14*4096+10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	bursts := a.node.engine.Transmit(0, NewOutbox(make([]byte, 256<<10), 8, 64))
	var packets []int
	for _, burst := range bursts {
		packets = append(packets, burst.Packets())
		if len(burst.Data) > maxBurst {
			t.Errorf("a burst of %d bytes", len(burst.Data))
		}
		for off := 0; off < len(burst.Data); off += burst.Segment {
			if _, err := packet.Parse(burst.Data[off:min(off+burst.Segment, len(burst.Data))]); err != nil {
				t.Error(err)
			}
		}
	}
	// The first burst has FIRST with its RETH, and one MIDDLE, which is shorter.
	if len(packets) != 2 || packets[0] != 2 || packets[1] != 13 {
		t.Errorf("bursts of %v packets, want [2 13]", packets)
	}
}
