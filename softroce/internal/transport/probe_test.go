package transport

import (
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestProbesDoNotTime: the answer to a probe may acknowledge a packet that is being timed. It is no measure of
// the round trip: the tail-loss probe would come later after each lost ACK.
func TestProbesDoNotTime(t *testing.T) {
	n, a, b := recoveryPair(t, 64)
	drop := false
	n.tap = func(s, _ *simnode, _ []byte) bool {
		lost := s == b.node && drop
		drop = drop && !lost
		return !lost
	}
	for i := range 40 {
		drop = i%2 == 0
		at := n.now
		a.move(b, verbs.OpRDMAWrite, 1024)
		if took := n.now - at; took > 10*time.Millisecond {
			t.Fatalf("write %d took %v; the smoothed round trip is %v", i, took, a.qp.req.trip.mean)
		}
	}
	if mean := a.qp.req.trip.mean; mean > 100*time.Microsecond {
		t.Errorf("the smoothed round trip is %v, and the network's is 20 µs", mean)
	}
}

// TestAProbesNAK: the requester believes that the peer drops what is behind a gap, but the peer buffers it. A
// packet is lost twice. The peer's NAK, which answers a probe, repairs that, also without an ACK timeout.
func TestAProbesNAK(t *testing.T) {
	n, a, b := recoveryPair(t, 64)
	a.qp.req.responder = goesBack
	a.qp.attr.Timeout = 0
	a.qp.req.deadline = never
	losses := 0
	third := packet.NewPSN(uint32(a.qp.req.nxt + 3))
	n.lose(a, func(p packet.Packet) bool {
		if p.BTH().PSN() != third || p.Opcode().Operation() != packet.OpWrite || losses == 2 {
			return false
		}
		losses++
		return true
	})
	began := n.now
	a.move(b, verbs.OpRDMAWrite, 8*1024)
	if took := n.now - began; losses != 2 || took > 20*time.Millisecond {
		t.Errorf("%d losses, repaired after %v with %d probes", losses, took, a.node.engine.Counter(Probes))
	}
}

// TestFlushKeepsNoList: a queued FLUSH does not take the caller's list for the queue's memory.
func TestFlushKeepsNoList(t *testing.T) {
	o := defaults()
	o.cap.MaxSendWR = 1
	_, a, b := pair(t, 1, o)
	fill(a.mem, 1)
	list := make([]verbs.SGE, 0, 4) // the program uses it again and again
	flush := verbs.SendWR{ID: 1, Opcode: verbs.OpFlush, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), SGL: list}
	flush.Flush.Type, flush.Flush.Length = verbs.FlushGlobal, 8
	a.send(flush)
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCFlush)
	a.send(verbs.SendWR{ID: 2, Opcode: verbs.OpRDMAWrite, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), SGL: []verbs.SGE{a.sge(0, 64)}})
	_ = append(list, a.sge(4096, 64)) // for the next request
	a.want(a.scq, 2, verbs.WCSuccess, verbs.WCRDMAWrite)
	if string(b.mem[:64]) != string(a.mem[:64]) {
		t.Error("the WRITE sent other bytes than those it was posted with")
	}
}

// TestFirstMark: the first congestion mark halves the window, whenever it comes.
func TestFirstMark(t *testing.T) {
	for _, at := range []time.Duration{100 * time.Microsecond, 10 * time.Second} {
		var c controller
		c.init(1 << 20)
		before := c.window
		c.congested(at, 80*time.Microsecond, leastWindow*4096)
		if share := float64(c.window) / float64(before); share < 0.45 || share > 0.55 {
			t.Errorf("a first mark at %v leaves %.2f of the window", at, share)
		}
	}
}

// TestSRQBesideCreateQP resizes an SRQ while queue pairs with it are made, for the race detector.
func TestSRQBesideCreateQP(t *testing.T) {
	n := newSimnet(t, 1)
	node := n.node("fd00::1")
	e, pd := node.engine, node.domain()
	s, err := pd.CreateSRQ(8, 1)
	if err != nil {
		t.Fatal(err)
	}
	cq, err := e.CreateCQ(CQInit{Depth: 8})
	if err != nil {
		t.Fatal(err)
	}
	var resizing sync.WaitGroup
	resizing.Go(func() {
		for i := range 200 {
			if err := s.Modify(verbs.SRQAttr{MaxWR: uint32(8 + i)}, verbs.SRQMaxWR); err != nil {
				t.Error(err)
			}
		}
	})
	for range 200 {
		q, err := pd.CreateQP(QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: s})
		if err != nil {
			t.Fatal(err)
		}
		q.Close()
	}
	resizing.Wait()
}

// TestRepeatsWithoutARegion closes the region of a request that is sent, and loses the peer's acknowledgments for longer than
// the ACK timeout. The request succeeds, unless the peer lacks it, too.
func TestRepeatsWithoutARegion(t *testing.T) {
	const silent = 20 * time.Millisecond
	for name, test := range map[string]struct {
		before       bool // another request is before it
		unread, lost bool
		stale        bool // the answer to an earlier probe comes late
		want         verbs.WCStatus
	}{
		"the peer is silent":      {true, false, false, false, verbs.WCSuccess},
		"packets lie unread":      {false, true, false, false, verbs.WCSuccess},
		"a stale answer":          {false, false, false, true, verbs.WCSuccess},
		"the peer lacks a packet": {true, false, true, false, verbs.WCLocProtErr},
	} {
		t.Run(name, func(t *testing.T) {
			n, a, b := recoveryPair(t, 64)
			a.qp.attr.Timeout = 9 // 2 ms
			a.node.engine.cfg.Unread = func(*Path, time.Duration) bool { return test.unread }
			until := n.now + silent
			n.tap = func(s, _ *simnode, raw []byte) bool {
				p, err := packet.Parse(raw)
				if err != nil {
					t.Fatal(err)
				}
				lost := test.lost && s == a.node && len(p.Payload()) > 0
				return !lost && (s == a.node || n.now >= until)
			}
			write := verbs.SendWR{ID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
			if test.before {
				a.send(verbs.SendWR{ID: 2, Opcode: verbs.OpRDMAWrite, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			}
			a.send(write)
			n.transmit()
			if err := a.mr.Close(); err != nil {
				t.Fatal(err)
			}
			if test.stale {
				for a.node.engine.Counter(Probes) == 0 && n.step(until) {
				}
				a.inject(b, packet.RCAcknowledge, uint32(a.qp.req.una-1), 0, ack(accepted))
			}
			if test.before {
				a.want(a.scq, 2, verbs.WCSuccess, verbs.WCRDMAWrite)
			}
			a.want(a.scq, 1, test.want, verbs.WCRDMAWrite)
		})
	}
}
