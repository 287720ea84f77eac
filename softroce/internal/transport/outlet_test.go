// Tests of packets that wait for room at their outlet.

package transport

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	waitPackets = 24 // of a message, each in a burst of its own
	waitMTU     = 4096
)

// slowPair returns a pair whose first end has an open window and outlets of its own.
func slowPair(t *testing.T) (n *simnet, a, b *end) {
	n = newSimnet(t, 1)
	cfg := Config{Reorder: 64} // so that the requester sends tail-loss probes
	x, y := n.nodeWith("10.0.0.1", cfg), n.nodeWith("10.0.0.2", cfg)
	x.outlet = [2]*Outlet{new(Outlet), new(Outlet)}
	x.out = NewOutbox(make([]byte, 1<<20), waitPackets, 1)
	a, b = connected(x, y, 0)
	a.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 1)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.want(a.scq, 0, verbs.WCSuccess, verbs.WCRDMAWrite) // it measures the round trip
	n.settle()
	return n, a, b
}

// connected returns two connected ends; the first has an open window, and a flow label.
func connected(x, y *simnode, label uint32) (a, b *end) {
	o := defaults()
	o.memory, o.mtu, o.label = waitPackets*waitMTU, qpstate.MTU4096, label
	a, b = x.end(o), y.end(o)
	a.connect(b)
	b.connect(a)
	a.qp.route.controller.window = 64 * waitMTU
	a.proven()
	return a, b
}

// writeAll posts a WRITE of all of a's memory.
func (e *end) writeAll(to *end, id uint64) {
	e.send(verbs.SendWR{ID: id, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{e.sge(0, len(e.mem))}, RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey()})
}

// takesOnly makes the outlet without a flow label take only n bursts.
func (s *simnode) takesOnly(n int) {
	s.takes = func(b Burst) bool {
		n--
		return b.Path.Outlet != s.outlet[0] || n >= 0
	}
}

// takeAll makes the node's outlets take what waits, and everything from then on.
func (s *simnode) takeAll() {
	s.takes = nil
	for _, b := range s.kept {
		s.send(b)
	}
	s.kept = nil
	s.engine.Drained(s.net.now, s.outlet[0])
}

// sleep lets an hour pass. It fails the test if a timer expires or a packet is built meanwhile.
func (s *simnode) sleep() {
	n, e := s.net, s.engine
	n.tb.Helper()
	n.transmit()
	limit, packets, timeouts := n.now+time.Hour, e.Counter(TxPackets), e.Counter(Timeouts)
	for n.step(limit) {
	}
	n.now = limit
	if e.Counter(TxPackets) != packets || e.Counter(Timeouts) != timeouts {
		n.tb.Fatalf("%d packets were built, and %d timers expired", e.Counter(TxPackets)-packets, e.Counter(Timeouts)-timeouts)
	}
}

// TestNoTimerBeforeTheOutlet: while packets wait, no timer runs, and nothing is built again. Another outlet goes on.
func TestNoTimerBeforeTheOutlet(t *testing.T) {
	n, a, b := slowPair(t)
	x, y := a.node, b.node
	fill(a.mem, 1)
	x.takesOnly(0)
	a.writeAll(b, 1)
	a.node.sleep()
	if len(x.kept) != waitPackets {
		t.Fatalf("%d packets wait, want %d", len(x.kept), waitPackets)
	}
	c, d := connected(x, y, 0x123)
	c.writeAll(d, 2)
	c.want(c.scq, 2, verbs.WCSuccess, verbs.WCRDMAWrite)
	e, f := connected(x, y, 0)
	e.writeAll(f, 3) // it waits before it builds anything
	a.node.sleep()
	if len(x.kept) != waitPackets {
		t.Errorf("%d packets wait, want %d", len(x.kept), waitPackets)
	}
	x.takeAll()
	if at, ok := x.engine.Deadline(); !ok || at <= n.now {
		t.Errorf("the next deadline is at %v, %v", at, ok)
	}
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCRDMAWrite)
	e.want(e.scq, 3, verbs.WCSuccess, verbs.WCRDMAWrite)
	if string(b.mem) != string(a.mem) {
		t.Error("the data differ")
	}
	if mean := a.qp.req.trip.mean; mean > time.Minute {
		t.Errorf("the mean round trip is %v", mean)
	}
	for what, got := range map[string]uint64{"packets built": x.engine.Counter(TxPackets) - 1 - 3*waitPackets,
		"duplicates": y.engine.Counter(Duplicates), "retransmits": x.engine.Counter(Retransmits), "timeouts": x.engine.Counter(Timeouts), "probes": x.engine.Counter(Probes)} {
		if got != 0 {
			t.Errorf("%d %s too many", got, what)
		}
	}
}

// TestTimerStartsWithTheOutlet: the peer is dead. The timers start when the outlet has taken the packets.
func TestTimerStartsWithTheOutlet(t *testing.T) {
	for name, wait := range map[string]func(a *end){
		"a moment": func(a *end) { a.node.net.transmit(); a.node.net.now += time.Millisecond },
		"an hour":  func(a *end) { a.node.sleep() },
	} {
		t.Run(name, func(t *testing.T) {
			n, a, b := slowPair(t)
			n.tap = func(*simnode, *simnode, []byte) bool { return false }
			a.node.takesOnly(0)
			a.writeAll(b, 1)
			wait(a)
			a.node.takeAll()
			if got, want := a.qp.req.deadline, n.now+qpstate.ACKTimeout(a.opts.timeout); got != want {
				t.Errorf("the timer ends at %v, want %v", got, want)
			}
			if a.qp.req.tailProbe <= n.now || a.qp.req.tailProbe == never {
				t.Errorf("the tail-loss probe is at %v; it is %v", a.qp.req.tailProbe, n.now)
			}
			a.want(a.scq, 1, verbs.WCRetryExcErr, verbs.WCRDMAWrite)
			if got := a.node.engine.Counter(Timeouts); got != uint64(a.opts.retry)+1 {
				t.Errorf("%d timeouts, want %d", got, a.opts.retry+1)
			}
		})
	}
}

// TestDeadPeerBehindAFullOutlet: the peer is dead, and the outlet has taken the first packet. So the ACK timeout counts, but
// nothing is built again while the rest waits.
func TestDeadPeerBehindAFullOutlet(t *testing.T) {
	n, a, b := slowPair(t)
	n.tap = func(*simnode, *simnode, []byte) bool { return false }
	a.node.takesOnly(1)
	a.writeAll(b, 1)
	a.want(a.scq, 1, verbs.WCRetryExcErr, verbs.WCRDMAWrite)
	if got := a.node.engine.Counter(TxPackets); got != 1+waitPackets {
		t.Errorf("%d packets were built, want %d", got, 1+waitPackets)
	}
	a.node.takeAll()
	n.settle()
}

// TestAcknowledgedUpToTheOutlet: the peer acknowledges all packets that the outlet has taken. Then no timer runs for the rest.
func TestAcknowledgedUpToTheOutlet(t *testing.T) {
	n, a, b := slowPair(t)
	const taken = 7 // asks for an ACK: ackEvery
	a.qp.route.window.Store(4 * taken * waitMTU)
	a.node.takesOnly(taken)
	a.writeAll(b, 1)
	n.settle()
	if r := &a.qp.req; r.una != r.untaken || len(a.node.kept) != waitPackets-taken {
		t.Fatalf("una %d, untaken %d, %d packets wait", r.una, r.untaken, len(a.node.kept))
	}
	a.node.sleep()
	a.node.takeAll()
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCRDMAWrite)
	if got := a.node.engine.Counter(TxPackets); got != 1+waitPackets {
		t.Errorf("%d packets were built, want %d", got, 1+waitPackets)
	}
}

// TestEndBehindAFullOutlet resets or closes a queue pair whose packets wait. They leave later, and a new connection of the
// queue pair works.
func TestEndBehindAFullOutlet(t *testing.T) {
	for name, end := range map[string]func(e *end){
		"Close": func(e *end) { e.qp.Close() },
		"RESET": func(e *end) { e.modify(qpstate.Attr{State: qpstate.Reset}, 0) },
		"ERR":   func(e *end) { e.modify(qpstate.Attr{State: qpstate.Error}, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			n, a, b := slowPair(t)
			a.node.takesOnly(0)
			a.writeAll(b, 1)
			a.node.sleep()
			end(a)
			if name == "RESET" {
				b.modify(qpstate.Attr{State: qpstate.Reset}, 0)
				a.opts.psn += 1000
				a.connect(b)
				b.connect(a)
				a.writeAll(b, 2)
			}
			a.node.sleep()
			a.node.takeAll()
			if name == "RESET" {
				a.want(a.scq, 2, verbs.WCSuccess, verbs.WCRDMAWrite)
			}
			n.settle()
		})
	}
}

// TestRoomBeforeRelease: the outlet takes the rest before the driver goes on.
func TestRoomBeforeRelease(t *testing.T) {
	n, a, b := slowPair(t)
	a.writeAll(b, 1)
	e, x := a.node.engine, a.node.outlet[0]
	for _, burst := range e.Transmit(n.now, a.node.out) {
		a.node.send(burst)
	}
	x.Fill()
	a.node.out.Wait(waitPackets - 1)
	e.Drained(n.now, x)
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCRDMAWrite)
}
