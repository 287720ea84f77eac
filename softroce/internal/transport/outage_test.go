// Tests of recovery after outages: for a while, everything is lost in both directions.

package transport

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// outages loses every packet of both ends for a time, as often as told, while a WRITE of n bytes is under way.
func (e *end) outages(to *end, times int, lasts time.Duration, n int) {
	net := e.node.net
	for range times {
		from, packets := time.Duration(0), 0
		net.tap = func(s, _ *simnode, _ []byte) bool {
			if packets++; packets == 20 {
				from = net.now
			}
			return packets < 20 || net.now >= from+lasts
		}
		e.move(to, verbs.OpRDMAWrite, n)
		if packets < 20 {
			net.tb.Fatal("the outage never began")
		}
	}
	net.tap = nil
}

// TestOutagesTeachNothing: in an outage everything is lost, so nothing is behind the gap. That says nothing of the
// responder: afterwards, only a lost packet is sent again.
func TestOutagesTeachNothing(t *testing.T) {
	const packets = 40
	for _, times := range []int{1, 2, 5} {
		n, a, b := recoveryPair(t, 64)
		a.outages(b, times, 300*time.Microsecond, packets*1024)
		first := a.qp.req.nxt
		sent := n.lose(a, once(packet.NewPSN(uint32(first+5))))
		a.move(b, verbs.OpRDMAWrite, packets*1024)
		again := 0
		for i := range int64(packets) {
			again += sent[packet.NewPSN(uint32(first+i))] - 1
		}
		if again != 1 {
			t.Errorf("after %d outages, %d packets were sent again for one loss, want 1; the responder is %d", times, again, a.qp.req.responder)
		}
		n.wantNoTimeout(a, b)
	}
}

// TestLearnsAgain: a requester that believes that the responder buffers nothing finds out that it does, within some
// losses. It does not ask a responder that buffers nothing too often.
func TestLearnsAgain(t *testing.T) {
	const losses = 2 * gapsToDoubt
	for _, reorder := range []int{64, 0} {
		n, a, b := recoveryPair(t, reorder)
		r := &a.qp.req
		r.responder, r.unbuffered = goesBack, gapsToLearn
		learned := 0
		for range losses {
			before := r.responder
			n.lose(a, once(packet.NewPSN(uint32(r.nxt+5))))
			a.move(b, verbs.OpRDMAWrite, 20*1024)
			if r.responder != before {
				learned++
			}
		}
		switch {
		case reorder > 0 && r.responder != buffersPackets:
			t.Errorf("after %d losses, the responder is %d, want %d", losses, r.responder, buffersPackets)
		case reorder == 0 && (r.responder != goesBack || learned > 4):
			t.Errorf("after %d losses, the responder is %d, want %d; that changed %d times", losses, r.responder, goesBack, learned)
		}
		n.wantNoTimeout(a, b)
	}
}

// TestFullPacketsLost: the path loses all packets of full size, or one packet whenever it comes, though all others pass. The
// answers to probes and NAKs show a peer that is alive, but RETRY_CNT ends the attempts.
func TestFullPacketsLost(t *testing.T) {
	for _, reorder := range []int{64, 0} {
		for what, lost := range map[string]func(a *end, p packet.Packet) bool{
			"all":      func(a *end, p packet.Packet) bool { return len(p.Payload()) == a.qp.mtu },
			"a packet": func(a *end, p packet.Packet) bool { return p.BTH().PSN() == a.psn(5) },
		} {
			n, a, b := recoveryPair(t, reorder)
			a.qp.attr.Timeout = 14
			n.tap = func(from, _ *simnode, raw []byte) bool {
				p, err := packet.Parse(raw)
				return from != a.node || err != nil || !lost(a, p)
			}
			a.write(b, 40*1024)
			start := n.now
			a.want(a.scq, 0, verbs.WCRetryExcErr, 0)
			if took := n.now - start; took > 4*time.Second {
				t.Errorf("reorder %d, %s lost: the WRITE failed after %v", reorder, what, took)
			}
		}
	}
}
