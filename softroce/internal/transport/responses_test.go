// Tests of responses to a requester that asks for all at once, as hardware and rdma_rxe do.

package transport

import (
	"bytes"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// greedy returns a queue pair whose READs are one request each, and its peer, with memory of n bytes. The peer has
// measured a round trip.
func greedy(t *testing.T, n int) (net *simnet, a, b *end) {
	net = newSimnet(t, 1)
	x, y := net.nodeWith("fd00::1", Config{Reorder: 64, ReadChunk: 1 << 20}), net.nodeWith("fd00::2", Config{Reorder: 64})
	x.flight, y.flight = 1<<20, 1<<20
	o := defaults()
	o.memory, o.timeout = n, 14
	a, b = x.end(o), y.end(o)
	a.connect(b)
	b.connect(a)
	a.move(b, verbs.OpRDMAWrite, 1024)
	b.move(a, verbs.OpRDMAWrite, 64<<10)
	return net, a, b
}

// TestRequestsBesideResponses posts a SEND at the responder while the response of a READ of 8 MiB is due. It waits for one
// burst, not for the whole response. The response gets its bursts too.
func TestRequestsBesideResponses(t *testing.T) {
	const length = 8 << 20
	n, a, b := greedy(t, length)
	fill(b.mem, 3)
	responses, before, between := 0, 0, 0
	n.tap = func(from, _ *simnode, raw []byte) bool {
		p, err := packet.Parse(raw)
		switch op := p.Opcode().Operation(); {
		case err != nil:
			t.Error(err)
		case from != b.node:
		case op == packet.OpReadResponse:
			responses++
		case op == packet.OpSend && p.Opcode().StartsMessage():
			before = responses
		case op == packet.OpSend && p.Opcode().EndsMessage():
			between = responses - before
		}
		return true
	}
	const sent = 120 << 10 // two bursts
	a.recv(verbs.RecvWR{ID: 5, SGL: []verbs.SGE{a.sge(length-sent, sent)}})
	a.read(b, length-sent)
	n.run(time.Second, func() bool { return b.qp.resp.due > 0 })
	b.send(verbs.SendWR{ID: 6, Opcode: verbs.OpSend, SGL: []verbs.SGE{b.sge(0, sent)}})
	a.want(a.rcq, 5, verbs.WCSuccess, verbs.WCRecv)
	a.want(a.scq, 0, verbs.WCSuccess, verbs.WCRDMARead)
	if most := 2 * maxBurst / 1024; before > most || between == 0 || between > most {
		t.Errorf("%d packets of the response left before the SEND, and %d during it; want some, and at most %d", before, between, most)
	}
	if !bytes.Equal(a.mem[:length-sent], b.mem[:length-sent]) {
		t.Error("the READ brought other bytes")
	}
}

// TestCNPsSlowResponses: a responder that gets CNPs sends its responses at a rate. CNPs for a WRITE before count too,
// because the packets go the same way.
func TestCNPsSlowResponses(t *testing.T) {
	const length = 4 << 20
	for _, c := range []struct {
		cnps          int
		least, atMost time.Duration // for the READ
	}{{0, 0, time.Millisecond}, {1, 2 * time.Millisecond, 10 * time.Millisecond}, {20, 4 * time.Millisecond, 100 * time.Millisecond}} {
		n, a, b := greedy(t, length)
		for range c.cnps {
			b.inject(a, packet.CongestionNotification, 0, cnpPayload, nil)
			n.now += cnpPause
		}
		atOnce := 0
		n.tap = func(from, _ *simnode, _ []byte) bool {
			if from == b.node {
				atOnce++
			}
			return true
		}
		a.read(b, length)
		n.run(time.Second, func() bool { return b.qp.resp.due > 0 })
		n.transmit()
		switch window := b.qp.route.window.Load(); {
		case c.cnps == 0 && atOnce < length/1024:
			t.Errorf("%d packets left at once without a CNP, want %d", atOnce, length/1024)
		case c.cnps > 0 && atOnce*1024 > 1<<20:
			t.Errorf("%d packets left at once after %d CNPs, with a window of %d bytes", atOnce, c.cnps, window)
		}
		start := n.now
		a.want(a.scq, 0, verbs.WCSuccess, verbs.WCRDMARead)
		if took := n.now - start; took < c.least || took > c.atMost || c.cnps > 0 != (b.node.engine.Counter(RateWaits) > 0) {
			t.Errorf("%d CNPs: the READ took %v, want %v to %v; %d waits", c.cnps, took, c.least, c.atMost, b.node.engine.Counter(RateWaits))
		}
		if again := a.node.engine.Counter(Retransmits) + a.node.engine.Counter(Probes); again > 0 {
			t.Errorf("%d CNPs: the requester asked %d times", c.cnps, again+1)
		}
		if left := b.qp.paced.quantum.Load(); left > 0 {
			t.Errorf("%d CNPs: the responder keeps %d bytes of its quantum", c.cnps, left)
		}
		n.wantNoTimeout(a, b)
	}
}
