// Tests of routes: what queue pairs to one address share.

package transport

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// shared returns k pairs of queue pairs between two nodes with a route of flight bytes.
func shared(t *testing.T, k, flight int) (n *simnet, as, bs []*end) {
	n = newSimnet(t, 1)
	x, y := n.nodeWith("fd00::1", Config{Reorder: 64}), n.nodeWith("fd00::2", Config{Reorder: 64})
	x.flight, y.flight = flight, flight
	o := defaults()
	o.memory, o.timeout = 1<<18, 12
	for range k {
		a, b := x.end(o), y.end(o)
		a.connect(b)
		b.connect(a)
		a.proven()
		as, bs = append(as, a), append(bs, b)
	}
	return n, as, bs
}

func (e *end) write(b *end, n int) {
	e.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{e.sge(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
}

// TestRouteIsShared checks that all queue pairs together stay within the route's window, and that
// each gets its part.
func TestRouteIsShared(t *testing.T) {
	const pairs, flight, messages = 10, 32 << 10, 8
	n, as, bs := shared(t, pairs, flight)
	done := make([]int, pairs)
	for i, a := range as {
		for range messages {
			a.write(bs[i], 64<<10)
		}
	}
	var wcs [4]verbs.WC
	finished := 0
	for steps := 0; finished < pairs*messages; steps++ {
		if !n.step(n.now + time.Second) {
			t.Fatalf("nothing happens, and %d of %d messages are complete", finished, pairs*messages)
		}
		inFlight := int64(0)
		for i, a := range as {
			k := a.scq.Poll(wcs[:])
			done[i], finished = done[i]+k, finished+k
			inFlight += (a.qp.req.nxt - a.qp.req.una) * 1024
		}
		if most := int64(flight + 1024); inFlight > most {
			t.Fatalf("%d bytes are in flight, want at most %d", inFlight, most)
		}
		if finished == pairs*messages/2 {
			for i, k := range done {
				if k < messages/2-2 || k > messages/2+2 {
					t.Errorf("at half time queue pair %d has %d of %d messages", i, k, messages)
				}
			}
		}
	}
	if c := as[0].node.engine.Counter(Timeouts); c > 0 {
		t.Errorf("%d timeouts", c)
	}
	for _, a := range as {
		_ = a.qp.Close()
	}
	if k := len(as[0].node.engine.routes.routes); k > 0 {
		t.Errorf("%d routes are left after the queue pairs were closed", k)
	}
}

// TestSilentPeerLeavesRoom checks that a queue pair whose peer has ended does not stop the others of
// its route, though it never times out.
func TestSilentPeerLeavesRoom(t *testing.T) {
	n, as, bs := shared(t, 2, 16<<10)
	as[0].move(bs[0], verbs.OpRDMAWrite, 1024)
	as[0].qp.attr.Timeout = 0
	bs[0].modify(qpstate.Attr{State: qpstate.Reset}, 0)
	as[0].write(bs[0], 128<<10)
	n.run(time.Second, func() bool { return as[0].qp.req.tailProbes >= probedInVain })
	as[1].move(bs[1], verbs.OpRDMAWrite, 128<<10)
}

// TestClosingLeavesRoom closes a queue pair that uses the whole route, or the whole receive buffer.
func TestClosingLeavesRoom(t *testing.T) {
	for _, c := range []struct {
		fixture func(t *testing.T, k, flight int) (*simnet, []*end, []*end)
		post    func(a, b *end, n int)
		opcode  verbs.WCOpcode
	}{{shared, (*end).write, verbs.WCRDMAWrite}, {fanIn, (*end).read, verbs.WCRDMARead}} {
		n, as, bs := c.fixture(t, 2, 16<<10)
		n.tap = func(*simnode, *simnode, []byte) bool { return false }
		c.post(as[0], bs[0], 128<<10)
		n.transmit()
		c.post(as[1], bs[1], 128<<10)
		n.transmit()
		if as[1].qp.req.nxt != as[1].qp.req.una {
			t.Errorf("%v: the second queue pair sent without room", c.opcode)
		}
		n.tap = nil
		_ = as[0].qp.Close()
		as[1].want(as[1].scq, 0, verbs.WCSuccess, c.opcode)
	}
}

// TestSilentFromTheBeginning is TestSilentPeerLeavesRoom with a peer that never answered.
func TestSilentFromTheBeginning(t *testing.T) {
	n, as, bs := shared(t, 2, 16<<10)
	as[0].qp.attr.Timeout = 0
	bs[0].modify(qpstate.Attr{State: qpstate.Reset}, 0)
	as[0].write(bs[0], 128<<10)
	n.transmit()
	as[1].move(bs[1], verbs.OpRDMAWrite, 128<<10)
}

// TestSilentForLong checks that a queue pair that sends tail-loss probes again and again never takes its room
// back.
func TestSilentForLong(t *testing.T) {
	n, as, bs := shared(t, 1, 16<<10)
	a := as[0]
	a.move(bs[0], verbs.OpRDMAWrite, 1024)
	a.qp.attr.Timeout = 0
	bs[0].modify(qpstate.Attr{State: qpstate.Reset}, 0)
	a.write(bs[0], 128<<10)
	n.run(time.Second, func() bool { return a.qp.req.tailProbes >= probedInVain })
	for range 1000 {
		n.step(n.now + time.Second)
		if spent := a.qp.route.spent.Load(); spent != 0 {
			t.Fatalf("%d bytes are charged again", spent)
		}
	}
}

// TestTimeoutsShrinkTheWindow checks that ACK timeouts shrink the window if nobody at the address answers, and not if only
// one queue pair there is gone.
func TestTimeoutsShrinkTheWindow(t *testing.T) {
	for _, gone := range []bool{false, true} {
		n, as, bs := shared(t, 2, 64<<10)
		as[0].move(bs[0], verbs.OpRDMAWrite, 64<<10)
		if gone {
			bs[0].modify(qpstate.Attr{State: qpstate.Reset}, 0)
		} else {
			n.tap = func(*simnode, *simnode, []byte) bool { return false }
		}
		as[0].write(bs[0], 1024)
		before := as[0].qp.route.window.Load()
		for as[0].node.engine.Counter(Timeouts) < 2 && n.step(n.now+time.Second) {
			if gone {
				as[1].move(bs[1], verbs.OpRDMAWrite, 1024)
			}
		}
		if after := as[0].qp.route.window.Load(); gone != (after >= before) {
			t.Errorf("one queue pair is gone: %v; the window was %d bytes, and is %d", gone, before, after)
		}
	}
}

// TestWaitingForRoomIsNoTimeout lets a queue pair go back, and then wait for longer than its timeout for
// room that another one uses.
func TestWaitingForRoomIsNoTimeout(t *testing.T) {
	n, as, bs := shared(t, 2, 16<<10)
	a, b := as[1], bs[1]
	a.qp.attr.RetryCnt, a.qp.req.retries = 0, 0
	a.qp.req.responder = goesBack
	n.tap = func(*simnode, *simnode, []byte) bool { return false }
	a.write(b, 16<<10)
	n.transmit()
	n.tap = nil
	const others = 1 << 20
	a.qp.route.spent.Add(others)
	a.inject(b, packet.RCAcknowledge, a.opts.psn+1, 0, ack(packet.NAKPSNSequence))
	n.now += 100 * time.Millisecond
	as[0].node.engine.Advance(n.now)
	a.wantState(qpstate.RTS)
	a.qp.route.spent.Add(-others)
	as[0].move(bs[0], verbs.OpRDMAWrite, 1024) // its end lets the next in line send
	if c := a.node.engine.Counter(Timeouts); c > 0 {
		t.Errorf("%d timeouts", c)
	}
}

// TestBurstsOfAQuantum checks that a queue pair sends the bursts of its quantum in a row while others are in line.
func TestBurstsOfAQuantum(t *testing.T) {
	const flight = 1 << 20
	n, as, bs := shared(t, 16, flight)
	r := as[0].qp.route
	r.window.Store(flight)
	r.spent.Store(flight) // so each gets in line
	for i, a := range as {
		for range 8 {
			a.write(bs[i], 64<<10)
		}
	}
	n.transmit()
	r.spent.Store(flight / 2) // room for two quanta
	e := as[0].node.engine
	r.advance()
	var order []uint32
	for _, burst := range e.Transmit(n.now, NewOutbox(make([]byte, flight), 64, 64)) {
		p, err := packet.Parse(burst.Data[:burst.Segment])
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, p.BTH().DestQPN())
	}
	if len(order) < 4 || order[0] != order[3] {
		t.Errorf("bursts to the queue pairs %v, want the first four to one", order)
	}
}
