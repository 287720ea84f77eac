// Tests of UC and UD messages that do not fit their receive. The sender must not be able to end
// the queue pair with them.

package transport

import (
	"testing"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// sender returns a function that makes SENDs of n bytes from a to b.
func sender(a, b *end) func(n int) verbs.SendWR {
	wr := verbs.SendWR{Opcode: verbs.OpSend}
	if a.opts.kind == verbs.UD {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = a.ah(b), b.qp.QPN(), 0x1234
	}
	return func(n int) verbs.SendWR {
		wr.SGL = []verbs.SGE{a.sge(0, n)}
		return wr
	}
}

// TestTooLongForItsReceive sends a message that is too long for the receive, and then one that
// fits. A receive of the queue pair's own takes the second message. A receive of an SRQ
// completes with an error, because it cannot go back to the SRQ.
func TestTooLongForItsReceive(t *testing.T) {
	for _, kind := range []verbs.QPType{verbs.UC, verbs.UD} {
		for _, srq := range []bool{false, true} {
			for _, n := range []int{11, 1000, 2500} { // with 2500, the second packet is too much
				if kind == verbs.UD && n == 2500 {
					continue
				}
				o := defaults()
				o.kind, o.srq = kind, srq
				sim, a, b := udPairWith(t, o, "10.0.0.1", "10.0.0.2")
				head := 0
				if kind == verbs.UD {
					head = grhLen
				}
				room := head + n - 1
				send := sender(a, b)
				b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.sge(0, room)}}, verbs.RecvWR{ID: 2, SGL: []verbs.SGE{b.sge(0, room)}})
				a.send(send(n))
				sim.settle()
				e := b.node.engine
				if got := e.Counter(DropTooLong); got != 1 {
					t.Errorf("%v, SRQ %v, %d bytes: %d counted as too long", kind, srq, n, got)
				}
				next := uint64(1)
				if srq {
					b.want(b.rcq, 1, verbs.WCLocLenErr, 0)
					next = 2
				}
				b.wantState(qpstate.RTS)
				if len(b.node.events) != 0 {
					t.Errorf("%v: events %v", kind, b.node.events)
				}
				a.send(send(n - 1))
				if wc := b.want(b.rcq, next, verbs.WCSuccess, verbs.WCRecv); int(wc.ByteLen) != room {
					t.Errorf("%v: %d bytes, want %d", kind, wc.ByteLen, room)
				}
				b.wantState(qpstate.RTS)
			}
		}
	}
}

// TestDatagramAboveTheMTU checks that a UD message above the port's MTU is dropped, although
// its receive has room for it.
func TestDatagramAboveTheMTU(t *testing.T) {
	n := newSimnet(t, 1)
	o := udOptions()
	a, b := n.node("10.0.0.1").end(o), n.nodeWith("10.0.0.2", Config{MTU: qpstate.MTU1024}).end(o)
	a.connect(b)
	b.connect(a)
	b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.sge(0, 5000)}})
	datagram := func(n int) {
		b.inject(a, packet.UDSendOnly, 0, n, func(p packet.Packet) { p.DETH().Set(0x1234, a.qp.QPN()) })
	}
	datagram(1025)
	datagram(4096)
	if got := b.node.engine.Counter(DropTooLong); got != 2 || b.rcq.Poll(make([]verbs.WC, 1)) != 0 {
		t.Errorf("%d datagrams dropped, want 2", got)
	}
	datagram(1024)
	b.want(b.rcq, 1, verbs.WCSuccess, verbs.WCRecv)
}
