package transport

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// asker is the end that sends messages, and replier the one whose ACKs may wait.
type exchangePair struct {
	n              *simnet
	asker, replier *end
}

// newExchangePair returns two ends on one host, after as many messages with a reply.
func newExchangePair(t *testing.T, exchanges int) exchangePair {
	t.Helper()
	n, a, b := recoveryPair(t, 64)
	a.qp.path.Joined, b.qp.path.Joined = true, true
	x := exchangePair{n, a, b}
	for range exchanges {
		x.message(t)
		x.send(b)
		x.n.settle()
	}
	return x
}

// send posts a SEND of 64 bytes, for which the other end has a receive.
func (x exchangePair) send(e *end) {
	to := x.asker
	if e == to {
		to = x.replier
	}
	to.recv(verbs.RecvWR{SGL: []verbs.SGE{to.sge(100, 64)}})
	e.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{e.sge(0, 64)}})
}

// message sends a message, and lets time pass until the replier has it.
func (x exchangePair) message(t *testing.T) {
	t.Helper()
	before := x.replier.rcq.Pushed()
	x.send(x.asker)
	for x.replier.rcq.Pushed() == before {
		if !x.n.step(never - 1) {
			t.Fatal("the message does not arrive")
		}
	}
}

// sent returns what the replier sends now: the opcodes of its packets, and the number of bursts.
func (x exchangePair) sent() (opcodes []packet.Opcode, bursts int) {
	node := x.replier.node
	all := node.engine.Transmit(x.n.now, node.out)
	for _, burst := range all {
		for at := 0; at < len(burst.Data); at += burst.Segment {
			opcodes = append(opcodes, packet.Opcode(burst.Data[at]))
		}
		node.send(burst)
	}
	return opcodes, len(all)
}

func (x exchangePair) wantACK(t *testing.T, when string) {
	t.Helper()
	if got, _ := x.sent(); len(got) != 1 || got[0] != packet.RCAcknowledge {
		t.Errorf("%s: %v, want an ACK", when, got)
	}
}

func (x exchangePair) wantNothing(t *testing.T, when string) {
	t.Helper()
	if got, _ := x.sent(); len(got) != 0 {
		t.Errorf("%s: %v, want nothing", when, got)
	}
}

// TestAnACKWaitsForTheReply: after some messages that had a reply, the ACK of the next waits.
func TestAnACKWaitsForTheReply(t *testing.T) {
	for exchanges := range repliesEnough {
		x := newExchangePair(t, exchanges)
		x.message(t)
		x.wantACK(t, "too few replies")
	}
	x := newExchangePair(t, repliesEnough)
	for range 3 {
		x.message(t)
		x.wantNothing(t, "the message has arrived")
		x.n.now += ackWait / 2
		x.send(x.replier)
		if got, bursts := x.sent(); bursts != 1 || len(got) != 2 || got[0] != packet.RCSendOnly || got[1] != packet.RCAcknowledge {
			t.Fatalf("%v in %d bursts, want the reply and the ACK in one", got, bursts)
		}
		x.n.settle()
	}
	if got := x.asker.node.engine.Counter(Timeouts) + x.asker.node.engine.Counter(Probes); got != 0 {
		t.Errorf("%d timeouts and probes", got)
	}
}

// TestAWaitEnds: what ends the wait of an ACK, and that the next ACK then does not wait.
func TestAWaitEnds(t *testing.T) {
	for name, ends := range map[string]func(t *testing.T, x exchangePair){
		"time": func(t *testing.T, x exchangePair) {
			e := x.replier.node.engine
			if at, ok := e.Deadline(); !ok || at > x.n.now+ackWait {
				t.Errorf("the deadline is %v, %v; now is %v", at, ok, x.n.now)
			}
			e.Advance(x.n.now + ackWait - 1)
			x.wantNothing(t, "just before")
			e.Advance(x.n.now + ackWait)
		},
		"another message": func(t *testing.T, x exchangePair) { x.message(t) },
		"the same message again": func(t *testing.T, x exchangePair) {
			x.replier.inject(x.asker, packet.RCSendOnly, uint32(x.asker.qp.req.una), 64, func(p packet.Packet) { p.BTH().SetAckReq(true) })
		},
		"ERR":     func(t *testing.T, x exchangePair) { x.replier.modify(qpstate.Attr{State: qpstate.Error}, 0) },
		"Close":   func(t *testing.T, x exchangePair) { x.replier.qp.OwesAnswer() },
		"process": func(t *testing.T, x exchangePair) { x.replier.node.engine.EndWaits() },
	} {
		t.Run(name, func(t *testing.T) {
			x := newExchangePair(t, repliesEnough)
			x.message(t)
			x.wantNothing(t, "the message has arrived")
			ends(t, x)
			x.wantACK(t, name)
		})
	}
}

// TestNoACKWaits: cases in which no ACK waits.
func TestNoACKWaits(t *testing.T) {
	t.Run("the peer is on another host", func(t *testing.T) {
		x := newExchangePair(t, repliesEnough)
		x.replier.qp.path.Joined = false
		x.message(t)
		x.wantACK(t, "a message")
	})
	t.Run("the replies come late", func(t *testing.T) {
		x := newExchangePair(t, 0)
		for range repliesEnough {
			x.message(t)
			x.wantACK(t, "a message")
			x.n.now += ackWait
			x.send(x.replier)
			x.n.settle()
		}
		x.message(t)
		x.wantACK(t, "a message")
	})
	t.Run("a wait ended without a reply", func(t *testing.T) {
		x := newExchangePair(t, repliesEnough)
		x.message(t)
		x.n.settle() // the time passes
		x.send(x.replier)
		x.n.settle()
		x.message(t)
		x.wantACK(t, "the next message")
	})
	t.Run("a message of two packets", func(t *testing.T) {
		x := newExchangePair(t, repliesEnough)
		const size = 1500
		x.replier.recv(verbs.RecvWR{SGL: []verbs.SGE{x.replier.sge(100, size)}})
		x.asker.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{x.asker.sge(0, size)}})
		for before := x.replier.rcq.Pushed(); x.replier.rcq.Pushed() == before; {
			if !x.n.step(never - 1) {
				t.Fatal("the message does not arrive")
			}
		}
		x.wantACK(t, "the message")
	})
	t.Run("a WRITE", func(t *testing.T) {
		x := newExchangePair(t, repliesEnough)
		x.asker.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{x.asker.sge(0, 64)},
			RemoteAddr: x.replier.mr.Addr(), RKey: x.replier.mr.RKey()})
		began, before := x.n.now, x.asker.scq.Pushed()
		for x.asker.scq.Pushed() == before && x.n.step(never-1) {
		}
		if took := x.n.now - began; took > ackWait/2 {
			t.Errorf("its ACK came after %v", took)
		}
	})
}

// TestOneWayIsNotHeldUp: an end that waits for the completion of each message, and gets no replies, is held up
// once at most.
func TestOneWayIsNotHeldUp(t *testing.T) {
	x := newExchangePair(t, repliesEnough)
	began := x.n.now
	const messages = 50
	for range messages {
		before := x.asker.scq.Pushed()
		x.send(x.asker)
		for x.asker.scq.Pushed() == before {
			if !x.n.step(never - 1) {
				t.Fatal("no completion")
			}
		}
	}
	if took := x.n.now - began; took > ackWait+messages*100*time.Microsecond {
		t.Errorf("%d messages took %v", messages, took)
	}
}

// inject gives the replier a packet, and a receive for it.
func (x exchangePair) inject(op packet.Opcode, psn int64, size int, ackReq bool) {
	to := x.replier
	to.recv(verbs.RecvWR{SGL: []verbs.SGE{to.sge(100, 1500)}})
	to.inject(x.asker, op, uint32(psn), size, func(p packet.Packet) { p.BTH().SetAckReq(ackReq) })
}

// TestAFilledGapIsAnswered: a packet that fills a gap is served with those behind it.
func TestAFilledGapIsAnswered(t *testing.T) {
	x := newExchangePair(t, repliesEnough)
	next := x.replier.qp.resp.expected
	x.inject(packet.RCSendOnly, next+1, 64, true)
	x.sent() // the NAK
	x.inject(packet.RCSendOnly, next, 64, true)
	x.wantACK(t, "two messages at once")
}

// TestAFirstPacketEndsTheWait: the first packet of a longer message asks for no ACK, and ends the wait.
func TestAFirstPacketEndsTheWait(t *testing.T) {
	x := newExchangePair(t, repliesEnough)
	x.message(t)
	x.wantNothing(t, "it waits")
	x.inject(packet.RCSendFirst, x.replier.qp.resp.expected, x.replier.qp.mtu, false)
	x.wantACK(t, "the next packet")
}

// TestAMessageThatAsksForNothingEndsTheWait: other devices need not ask for an ACK of each message.
func TestAMessageThatAsksForNothingEndsTheWait(t *testing.T) {
	x := newExchangePair(t, repliesEnough)
	x.message(t)
	x.wantNothing(t, "it waits")
	x.inject(packet.RCSendOnly, x.replier.qp.resp.expected, 64, false)
	e := x.replier.node.engine
	x.n.now += 10 * ackWait
	e.Advance(x.n.now)
	x.wantACK(t, "after ten waits")
}
