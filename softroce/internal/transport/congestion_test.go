// Tests of congestion notification: marks, CNPs, and what they do to the window.

package transport

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// mark makes the network mark the packets that a node sends. It checks that they may be marked.
func (n *simnet) mark(from *end) {
	n.tos = func(s *simnode, tos uint8) uint8 {
		if s != from.node {
			return tos
		}
		if tos&ecnMask != ecnCapable {
			n.tb.Errorf("a packet has the type of service %#x, which no switch may mark", tos)
		}
		return tos | ecnCongested
	}
}

// TestMarksShrinkTheWindow sends over a network that marks everything, first the requests of a WRITE
// and then the responses of a READ.
func TestMarksShrinkTheWindow(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		n, as, bs := shared(t, 1, 64<<10)
		a, b := as[0], bs[0]
		a.move(b, verbs.OpRDMAWrite, 64<<10)
		before := a.qp.route.window.Load()
		cnps := 0
		n.tap = func(from, _ *simnode, raw []byte) bool {
			p, err := packet.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			if p.Opcode() == packet.CongestionNotification {
				cnps++
				to := a.qp
				if from == a.node {
					to = b.qp
				}
				if p.BTH().DestQPN() != to.QPN() || !p.BTH().BECN() {
					t.Errorf("a CNP for %#x, BECN %v", p.BTH().DestQPN(), p.BTH().BECN())
				}
			}
			return true
		}
		sender := a
		if op == verbs.OpRDMARead {
			sender = b
		}
		n.mark(sender)
		start := n.now
		a.move(b, op, 200<<10)
		if after := a.qp.route.window.Load(); after > before/2 {
			t.Errorf("%v: the window was %d bytes, and is %d", op, before, after)
		}
		if most := int((n.now-start)/cnpPause) + 1; cnps == 0 || cnps > most {
			t.Errorf("%v: %d CNPs, want 1 to %d", op, cnps, most)
		}
		n.wantNoTimeout(a, b)
	}
}

// TestMarkedACKs marks what carries no data: the way back is full, which a smaller window does not help.
func TestMarkedACKs(t *testing.T) {
	n, as, bs := shared(t, 1, 64<<10)
	a, b := as[0], bs[0]
	a.move(b, verbs.OpRDMAWrite, 64<<10)
	before := a.qp.route.window.Load()
	n.mark(b)
	a.move(b, verbs.OpRDMAWrite, 200<<10)
	if a.node.engine.Counter(CongestionMarks) == 0 {
		t.Error("no ACK was marked")
	}
	if after := a.qp.route.window.Load(); after < before {
		t.Errorf("the window was %d bytes, and is %d", before, after)
	}
}

// TestForeignCNP checks that only the peer's CNPs count.
func TestForeignCNP(t *testing.T) {
	_, as, bs := shared(t, 1, 64<<10)
	a, b := as[0], bs[0]
	a.move(b, verbs.OpRDMAWrite, 64<<10)
	before := a.qp.route.window.Load()
	stranger := &end{node: &simnode{addr: a.node.addr}}
	a.inject(stranger, packet.CongestionNotification, 0, cnpPayload, nil)
	if a.qp.route.window.Load() != before {
		t.Error("a stranger's CNP shrank the window")
	}
	a.inject(b, packet.CongestionNotification, 0, cnpPayload, nil)
	if a.qp.route.window.Load() >= before {
		t.Error("the peer's CNP did not shrink the window")
	}
}

// TestController checks the congestion controller's numbers: growth, and cuts by marks and losses.
func TestController(t *testing.T) {
	const mtu, trip, limit = 1024, usualTrip, 1 << 20
	now := time.Duration(0)
	fresh := func() *controller { l := new(controller); l.init(limit); return l }
	l := fresh()
	for l.window < limit {
		before := l.window
		l.acked(l.window, mtu, l.window, trip)
		if l.window != min(2*before, limit) {
			t.Fatalf("the window grows from %d to %d in a round trip, want twice as much", before, l.window)
		}
	}
	l.congested(trip, trip, leastWindow*mtu)
	if l.window != limit/2 || l.threshold != l.window {
		t.Errorf("the first mark leaves %d bytes, want half", l.window)
	}
	l.congested(trip+trip/2, trip, leastWindow*mtu)
	if l.window != limit/2 {
		t.Error("a second mark in the same round trip cuts again")
	}
	before := l.window
	l.acked(l.window, mtu, l.window, trip)
	if l.window != before+mtu {
		t.Errorf("after the cut the window grows by %d bytes per round trip, want one packet", l.window-before)
	}
	for now = 2 * trip; now < 200*trip; now += 20 * trip { // one mark in twenty round trips
		l.congested(now, trip, leastWindow*mtu)
	}
	before = l.window
	l.congested(now, trip, leastWindow*mtu)
	if cut := 1 - float64(l.window)/float64(before); cut <= 0 || cut > 0.1 {
		t.Errorf("rare marks cut %.2f of the window, want a few percent", cut)
	}

	for _, c := range []struct {
		every int // packets
		cuts  bool
	}{{100, false}, {10, true}} {
		l = fresh()
		l.window = limit
		for i := range 3000 {
			l.acked(mtu, mtu, l.window, trip)
			if i%c.every == 0 {
				l.lost(time.Duration(i)*trip, trip, mtu)
			}
		}
		if cut := l.window < limit/2; cut != c.cuts {
			t.Errorf("one loss in %d packets: %d bytes are left", c.every, l.window)
		}
	}
}

// TestLostAll checks what a loss leaves of the window if all packets behind it are sent again: the part
// that does not wait in queues, and at least half. A second loss within the window halves it.
func TestLostAll(t *testing.T) {
	for _, c := range []struct {
		trips []time.Duration
		want  int64
	}{
		{nil, 50},
		{[]time.Duration{100, 100, 100}, 100},
		{[]time.Duration{100, 180}, 90}, // a mean of 110
		{[]time.Duration{100, 900, 900, 900}, 50},
	} {
		var congestion controller
		congestion.init(100 << 10)
		congestion.window, congestion.sinceLoss = 100<<10, 100<<10
		var trip roundTrip
		for _, sample := range c.trips {
			trip.add(sample)
		}
		for round, want := range []int64{c.want << 10, c.want << 10 / 2} {
			congestion.lostAll(time.Duration(round)*time.Second, &trip, 1024)
			if w := congestion.window; w/1024 != want/1024 || congestion.threshold != w {
				t.Errorf("round trips %v: %d bytes after loss %d, and grows slowly from %d on, want %d", c.trips, w, round+1, congestion.threshold, want)
			}
		}
	}
}
