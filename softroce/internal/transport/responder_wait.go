// An ACK that waits for a request to go with.
//
// A program often replies to a message, and the ACK goes in the reply's datagram (QP.next). But the goroutine
// that took the message may receive again before another one has posted the reply. Its ACK would leave
// alone, and cost both ends a datagram and a wake-up each. So if the program replied at once to the last
// messages, the ACK of the next one waits for the reply, as TCP's delayed ACK does.
//
// An ACK waits at most for ackWait, and only until the next request of the peer: if a second message comes before
// the reply, the requester sends many, and may need the ACK to send more. Probes and other repeated packets
// are answered at once, and so is a packet that fills a gap. An ACK waits only if the peer is a device of this
// package on the same host, because only there an ACK and a request share a datagram.

package transport

import (
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

const (
	// ackWait is shorter than tailProbeLeast, so that the requester sends no probe meanwhile.
	ackWait = 100 * time.Microsecond
	// repliesEnough is the number of messages in a row that had a reply within ackWait, after which ACKs wait.
	repliesEnough = 4
)

// exchange is what a responder knows of the program's replies.
type exchange struct {
	messages int // since the last request
	cameAt   time.Duration
	replies  int           // in a row: one message, and soon one request
	waits    time.Duration // an ACK waits until then; never: none waits
}

// awaitReply makes the ACK of p, which was just served, wait, if a reply is likely. wake is whether the queue pair
// had something to send before p came. single is false if other packets were served with p.
func (qp *QP) awaitReply(now time.Duration, p packet.Packet, wake, single bool) {
	a := &qp.resp.answers
	op := p.Opcode()
	single = single && op.StartsMessage() && op.EndsMessage() && (op.Operation() == packet.OpSend || p.ImmDt() != nil)
	switch {
	case !single:
		qp.awaitNoReply()
		return
	case a.messages > 0:
		a.messages, a.replies = a.messages+1, 0
		qp.waitIsOver()
		return
	}
	a.messages = 1
	a.cameAt = now
	if a.replies >= repliesEnough && a.ackDue && a.due == 0 && !a.nakDue && qp.path.Joined {
		a.waits = now + ackWait
		qp.wake = wake
	}
}

// awaitNoReply notes that packets came that are not a message of one packet.
func (qp *QP) awaitNoReply() {
	qp.resp.messages, qp.resp.replies = 0, 0
	qp.waitIsOver()
}

// replied notes that the first packet of a request is sent. An ACK that waits goes with it.
func (qp *QP) replied(now time.Duration) {
	a := &qp.resp.answers
	switch {
	case a.messages == 0:
		return
	case a.messages == 1 && now-a.cameAt < ackWait:
		a.replies = min(a.replies+1, repliesEnough)
	default:
		a.replies = 0
	}
	a.messages, a.waits = 0, never
}

// waitIsOver sends the ACK that waits, if any, without a reply.
func (qp *QP) waitIsOver() {
	a := &qp.resp.answers
	if a.waits != never {
		a.waits = never
		qp.wake = true
	}
}
