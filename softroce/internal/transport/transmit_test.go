package transport

import (
	"net/netip"
	"slices"
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
	a.proven()
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

// TestBurstOfSeveral checks that ACKs of several queue pairs to one peer are one burst, that those to another
// peer are not part of it, and that a burst has at most so many packets as the Outbox allows.
func TestBurstOfSeveral(t *testing.T) {
	n := newSimnet(t, 1)
	x, y, z := n.node("10.0.0.1"), n.node("10.0.0.2"), n.node("10.0.0.3")
	o := defaults()
	for i := range 12 {
		from := x
		if i >= 10 {
			from = z
		}
		a, b := from.end(o), y.end(o)
		a.connect(b)
		b.connect(a)
		a.proven()
		a.write(b, 100)
	}
	for y.engine.Counter(RxPackets) < 12 && n.step(never-1) {
	}
	var got []int
	for _, burst := range y.engine.Transmit(n.now, NewOutbox(make([]byte, 64<<10), 16, 8)) {
		got = append(got, burst.Packets())
	}
	if want := []int{8, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("bursts of %v ACKs, want %v", got, want)
	}
}

// TestBurstsOfShards checks that a burst has packets for queue pairs of one shard only: datagrams of one queue pair to many,
// and ACKs of many queue pairs.
func TestBurstsOfShards(t *testing.T) {
	n := newSimnet(t, 1)
	const shards, qps = 4, 32
	x, y := n.node("10.0.0.1"), n.node("10.0.0.2")
	x.shards, y.shards = shards, shards
	check := func(what string, bursts []Burst) {
		t.Helper()
		packets := 0
		for _, b := range bursts {
			packets += b.Packets()
			to := (*packet.BTH)(b.Data).DestQPN() % shards
			for off := 0; off < len(b.Data); off += b.Segment {
				if got := (*packet.BTH)(b.Data[off:]).DestQPN() % shards; got != to {
					t.Errorf("%s: packets for shards %d and %d in a burst", what, to, got)
				}
			}
		}
		if packets != qps || len(bursts) == qps {
			t.Errorf("%s: %d packets in %d bursts, want %d in fewer", what, packets, len(bursts), qps)
		}
	}
	outbox := NewOutbox(make([]byte, 64<<10), 2*qps, qps)

	o := defaults()
	for range qps {
		a, b := x.end(o), y.end(o)
		a.connect(b)
		b.connect(a)
		a.proven()
		a.write(b, 100)
	}
	for y.engine.Counter(RxPackets) < qps && n.step(never-1) {
	}
	check("ACKs", y.engine.Transmit(n.now, outbox))
	y.engine.Release(outbox)

	o.kind = verbs.UD
	a, b := x.end(o), y.end(o)
	a.connect(b)
	ah := a.ah(b)
	for i := range uint32(qps) {
		// Two in a row have one shard, so that they share a burst.
		a.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 100)}, AH: ah, RemoteQPN: 2 + i/2})
	}
	check("datagrams", x.engine.Transmit(n.now, outbox))
}

// TestBurstsThatAreShared checks which packets join the burst before them: those of its size, path and shard, up to its
// limits. A burst whose last packet is shorter takes no more, because all packets before the last have one size.
func TestBurstsThatAreShared(t *testing.T) {
	var x, y Path
	y.HopLimit = 1
	type part struct {
		path       *Path
		n, segment int
		shard      int
	}
	for name, test := range map[string]struct {
		parts []part
		want  []int // lengths
	}{
		"one size":      {[]part{{&x, 20, 20, 0}, {&x, 20, 20, 0}}, []int{40}},
		"equal paths":   {[]part{{&x, 20, 20, 0}, {&Path{}, 20, 20, 0}}, []int{40}},
		"shorter last":  {[]part{{&x, 30, 20, 0}, {&x, 20, 20, 0}}, []int{30, 20}},
		"shorter after": {[]part{{&x, 20, 20, 0}, {&x, 30, 20, 0}, {&x, 20, 20, 0}}, []int{50, 20}},
		"other size":    {[]part{{&x, 20, 20, 0}, {&x, 10, 10, 0}}, []int{20, 10}},
		"other path":    {[]part{{&x, 20, 20, 0}, {&y, 20, 20, 0}, {&x, 20, 20, 0}}, []int{20, 20, 20}},
		"most packets":  {[]part{{&x, 60, 20, 0}, {&x, 40, 20, 0}}, []int{60, 40}},
		"most bytes":    {[]part{{&x, 40000, 40000, 0}, {&x, 40000, 40000, 0}}, []int{40000, 40000}},
		"other shard":   {[]part{{&x, 20, 20, 0}, {&x, 20, 20, 1}, {&x, 20, 20, 1}}, []int{20, 40}},
	} {
		o := NewOutbox(make([]byte, 2*maxBurst), 8, 4)
		var got []int
		for _, p := range test.parts {
			o.add(p.path, p.n, p.segment, p.shard)
		}
		at := 0
		for _, b := range o.bursts {
			got = append(got, len(b.Data))
			if &b.Data[0] != &o.buf[at] {
				t.Errorf("%s: a burst is not at byte %d", name, at)
			}
			at += len(b.Data)
		}
		if !slices.Equal(got, test.want) || at != o.used {
			t.Errorf("%s: bursts of %v bytes, want %v; %d of %d", name, got, test.want, at, o.used)
		}
	}
}

// TestSendCompletesBeforeReply checks the order of the completions of a message and its reply, of
// lengths below and above an ACK's, and of several packets. A joined path sends one burst for the
// reply, unless its last packet is shorter than the first.
func TestSendCompletesBeforeReply(t *testing.T) {
	for _, joined := range []bool{false, true} {
		for _, bytes := range []int{2, 64, 4 << 10, 1500} {
			n, a, b := pair(t, 1, defaults())
			a.qp.path.Joined, b.qp.path.Joined = joined, joined
			var order []string
			a.scq.SetNotify(func() { order = append(order, "send") })
			a.rcq.SetNotify(func() { order = append(order, "receive") })
			a.scq.Arm(false)
			a.rcq.Arm(false)
			a.recv(verbs.RecvWR{SGL: []verbs.SGE{a.sge(100, bytes)}})
			b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.sge(100, bytes)}})
			a.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, bytes)}})
			for b.rcq.Pushed() == 0 && n.step(never-1) {
			}
			b.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{b.sge(0, bytes)}})
			bursts := b.node.engine.Transmit(n.now, b.node.out)
			want := 1
			if bytes > 2 && !joined || bytes == 1500 {
				want = 2 // the ACK is shorter
			}
			if len(bursts) != want {
				t.Errorf("joined %v, %d bytes: %d bursts, want %d", joined, bytes, len(bursts), want)
			}
			for _, burst := range bursts {
				b.node.send(burst)
			}
			n.settle()
			if !slices.Equal(order, []string{"send", "receive"}) {
				t.Errorf("joined %v, %d bytes: completions in the order %v", joined, bytes, order)
			}
		}
	}
}

// TestAcknowledgmentsFirst checks which packets an ACK overtakes: requests, of the same peer only.
func TestAcknowledgmentsFirst(t *testing.T) {
	a, b := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	ack := packet.RCAcknowledge
	for _, c := range []struct {
		first packet.Opcode
		from  netip.Addr
		swaps bool
	}{
		{packet.RCSendOnly, a, true},
		{packet.RCSendOnly, b, false},
		{packet.RCReadResponseOnly, a, false},
		{packet.RCReadResponseLast, a, false},
		{packet.RCAtomicAcknowledge, a, false},
	} {
		batch := []Datagram{{Data: []byte{byte(c.first)}, Src: c.from}, {Data: []byte{byte(ack)}, Src: a}, {Src: a}}
		if overtakes := opcodesInTurn(batch)[0] == ack; overtakes != c.swaps {
			t.Errorf("an ACK behind %v of %v: overtakes %v, want %v", c.first, c.from, overtakes, c.swaps)
		}
	}
	var batch []Datagram
	for _, op := range []packet.Opcode{packet.RCReadResponseLast, packet.RCSendFirst, ack, packet.RCSendLast, ack, packet.RCAtomicAcknowledge, ack} {
		batch = append(batch, Datagram{Data: []byte{byte(op)}, Src: a})
	}
	want := []packet.Opcode{packet.RCReadResponseLast, ack, ack, packet.RCSendFirst, packet.RCSendLast, packet.RCAtomicAcknowledge, ack}
	if got := opcodesInTurn(batch); !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}

// opcodesInTurn returns the opcodes of a batch in the order in which it is processed.
func opcodesInTurn(batch []Datagram) (ops []packet.Opcode) {
	acknowledgmentsFirst(batch, func(rest []Datagram) int {
		op := packet.CongestionNotification
		if len(rest[0].Data) > 0 {
			op = packet.Opcode(rest[0].Data[0])
		}
		ops = append(ops, op)
		return 1
	})
	return ops
}

// TestManyAcknowledgmentsBehind: many ACKs behind many requests are put first in one pass, and each packet is handled once. If each
// ACK had a pass of its own, the work would grow with the square of the batch. Anybody can send such packets.
func TestManyAcknowledgmentsBehind(t *testing.T) {
	const many = 1000
	batch := make([]Datagram, 2*many)
	for i := range batch {
		op := packet.RCSendOnly
		if i >= many {
			op = packet.RCAcknowledge
		}
		batch[i].Data = append([]byte{byte(op)}, make([]byte, 15)...)
	}
	if n, late := overtaken(batch); n != len(batch) || !late {
		t.Errorf("a pass is for %d of %d packets, ACKs behind requests %v", n, len(batch), late)
	}
	handled := make(map[*Datagram]int)
	acknowledgmentsFirst(batch, func(rest []Datagram) int {
		d := &rest[0]
		if handled[d]++; acknowledges(d) != (len(handled) <= many) {
			t.Fatalf("packet %d is %v", len(handled), packet.Opcode(d.Data[0]))
		}
		return 1
	})
	if len(handled) != len(batch) {
		t.Errorf("%d of %d packets were handled", len(handled), len(batch))
	}
	for _, times := range handled {
		if times != 1 {
			t.Fatalf("a packet was handled %d times", times)
		}
	}
}
