// Recovery of lost packets before the ACK timeout, by the requester.
//
//  1. A NAK reports a lost request packet. If the responder buffers the packets behind the gap
//     (reorder.go), the requester sends only the lost packet again. It learns whether the responder
//     does so at the first loss: it sends the lost packet, and waits for the answer. If the answer
//     acknowledges more than that packet, the responder buffers packets. Otherwise the requester
//     goes back. If that happens twice in a row, it does so at every later loss. It learns again
//     now and then, and if several packets in a row are lost.
//  2. The requester itself buffers the READ responses that came ahead of a lost one, and asks again
//     only for those that are missing. Every responder serves that.
//  3. If no answer comes for some round trips, the requester sends a tail-loss probe. It sends a packet
//     again that it has sent again before. Otherwise the probe is a SEND of no bytes with the
//     number of the last acknowledged packet. A responder answers such a duplicate with the
//     number that it expects: in a NAK if it buffers packets behind a gap, otherwise in an ACK. All
//     other packets were sent before the probe. So an ACK says that all of them were lost, and the
//     requester goes back. It has learned nothing of the responder.
//
// The ACK timeout stays the last resort, and only it counts for RETRY_CNT. With Config.Reorder 0 the
// requester does nothing of this: it goes back at once, and waits for the timeout.
//
// Everything here runs with the queue pair's lock held.

package transport

import (
	"math"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// recovery is the part of a requester that repairs losses.
type recovery struct {
	responder  responderKind
	unbuffered uint8 // gaps in a row behind which the responder had nothing
	again      int64 // this packet is sent again next, alone, if it is una still; nowhere: none
	hold       bool  // no other packet is sent until the answer to packet resent
	heldTo     int64 // end of what was sent again
	resent     int64 // the packet that was last sent again alone
	resentAt   time.Duration
	inRow      uint8 // packets that were sent again alone, each right behind the one before
	rowEnd     int64 // the packet behind them

	probe  bool  // a probe is sent next
	probed int64 // the packets before it were sent before the last probe; nowhere: no probe

	tailProbe  time.Duration // when to send the next tail-loss probe
	tailProbes uint8         // since una has moved

	trip    roundTrip
	timed   int64 // the packet whose answer is timed; nowhere: none
	timedAt time.Duration

	reads
}

// responderKind is what the requester knows of the responder.
type responderKind uint8

const (
	unknownResponder responderKind = iota
	goesBack                       // it drops the packets behind a gap, as the standard has it
	buffersPackets                 // it has a reorder buffer for them
)

func (v *recovery) reset() {
	*v = recovery{again: nowhere, resent: nowhere, probed: nowhere, tailProbe: never, timed: nowhere}
	v.reads.reset()
}

// roundTrip estimates the time until an answer, as TCP does (RFC 6298).
type roundTrip struct{ mean, deviation, least time.Duration }

func (t *roundTrip) add(sample time.Duration) {
	sample = max(sample, 1)
	if t.mean == 0 {
		t.mean, t.deviation, t.least = sample, sample/2, sample
		return
	}
	t.least = min(t.least, sample)
	t.deviation += ((t.mean - sample).Abs() - t.deviation) / 4
	t.mean += (sample - t.mean) / 8
}

const (
	// tailProbeLeast is the shortest time without an answer after which the requester sends a tail-loss
	// probe. It is long compared to the round trip of a quiet host, so that a timer seldom
	// fires without need.
	tailProbeLeast = time.Millisecond
	// tailProbeAgainLeast is the same after a packet was sent again.
	tailProbeAgainLeast = 100 * time.Microsecond
	// mostInRow is the number of packets in a row that are sent again one by one. Then the requester learns
	// again: all packets behind are lost, or the responder does not buffer packets after all.
	mostInRow = 32
	// gapsToLearn is the number of gaps in a row with nothing behind them that shows that the
	// responder does not buffer packets.
	gapsToLearn = 2
	// gapsToDoubt is the number of gaps in a row after which the requester learns again.
	gapsToDoubt = 64
	// tailProbeMost limits the growth of this time, as a power of two. It lets the time grow to a
	// second, because the probes of many requesters would keep a busy responder from its work.
	tailProbeMost = 10
	// tailProbesAlive limits it after the answer to a probe: the peer is alive, and the next one may come
	// soon. With 0, senders to a full switch take unequal shares (make simulate RUN=incast).
	tailProbesAlive = 2
)

// recovers reports whether the requester recovers before the timeout.
func (qp *QP) recovers() bool { return qp.engine.cfg.Reorder > 0 && qp.kind == verbs.RC }

// setTailProbe sets the time of the next tail-loss probe.
func (qp *QP) setTailProbe(now time.Duration) {
	r := &qp.req
	r.tailProbe = never
	if !qp.recovers() {
		return
	}
	wait := max(2*r.trip.mean+4*r.trip.deviation, tailProbeLeast)
	if r.resent == r.una || r.una < r.asked {
		wait = max(r.trip.mean+4*r.trip.deviation, tailProbeAgainLeast)
	}
	r.tailProbe = now + wait<<min(r.tailProbes, tailProbeMost)
}

// probeTail is the tail-loss probe: it sends something that makes the responder say what is missing.
func (qp *QP) probeTail(now time.Duration) {
	r := &qp.req
	r.tailProbe = never
	if r.una >= r.nxt || r.waiting || r.untaken != allTaken {
		return
	}
	if r.tailProbes < math.MaxUint8 {
		r.tailProbes++
	}
	qp.tailProbed(now)
	if r.trip.mean == 0 { // the peer may not exist: it gets nothing more, but the others get the room (settle)
		qp.setTailProbe(now)
		return
	}
	if r.hold && r.una > r.resent { // nothing came but the answer to packet resent
		qp.notBuffered()
		return
	}
	if (r.wqe(r.head).answered() || r.resent == r.una && r.responder != goesBack) && qp.repeatable() {
		r.again, r.resentAt, r.timed = r.una, now, nowhere
		qp.engine.counters.add(Retransmits, 1)
		qp.wake = true
	} else {
		qp.sendProbe()
	}
	qp.setTailProbe(now)
}

func (qp *QP) sendProbe() {
	r := &qp.req
	r.probe, r.probed, r.timed = true, r.nxt, nowhere // the answer may be the probe's (Karn's rule)
	qp.engine.counters.add(Probes, 1)
	qp.wake = true
}

// repeatable reports whether all packets in flight can be sent again. A program that has the peer's reply may close a
// region before the acknowledgment is here. Then probes ask for it, until a NAK or the last ACK timeout says that the peer
// lacks a packet.
func (qp *QP) repeatable() bool {
	r := &qp.req
	for i := r.head; i != r.tail && qp.recovers(); i++ {
		w := r.wqe(i)
		if !w.started || w.first >= r.nxt {
			break
		}
		if !w.fetches() && w.wr.Flags&verbs.SendInline == 0 && !qp.sglAllowed(w.wr.SGL, 0) {
			return false
		}
	}
	return true
}

// answerToProbe handles an ACK of the packet before una: it is the answer to a probe, and says that neither
// una nor anything behind it was received.
func (qp *QP) answerToProbe(now time.Duration) {
	r := &qp.req
	if r.una >= r.probed || r.waiting {
		return
	}
	qp.peerAnswered(now)
	qp.probeAnswered()
	if qp.repeatable() { // otherwise wait for a certain answer: this one may be an earlier probe's
		qp.goBackOnce(now)
	}
}

// probeAnswered notes that the peer is alive and lacks packet una, although it may have been sent again.
func (qp *QP) probeAnswered() {
	r := &qp.req
	r.probed, r.resent, r.wentBack = nowhere, nowhere, nowhere
	r.tailProbes = min(r.tailProbes, tailProbesAlive)
}

// lostRequest repairs the loss of request packet seq, which a NAK or the answer to a probe shows. If
// una is before seq, the responses to earlier READs are missing too.
func (qp *QP) lostRequest(now time.Duration, seq int64) {
	r := &qp.req
	switch {
	case !qp.recovers(), r.responder == goesBack:
		if qp.goBackOnce(now) {
			qp.doubt()
		}
	case seq > r.una:
		_, end := qp.chunkOf(seq)
		qp.askBefore(end)
	case qp.sendAgain(now) && r.responder != buffersPackets:
		r.hold = true
	}
}

// lostResponse repairs the loss of the response to request packet una. An answer to a later packet
// than seq shows the loss.
func (qp *QP) lostResponse(now time.Duration, seq int64) {
	switch {
	case !qp.recovers():
		qp.goBackOnce(now)
	case qp.req.wqe(qp.req.head).wr.Opcode == verbs.OpRDMARead:
		first, _ := qp.chunkOf(seq)
		qp.askBefore(first)
	default:
		qp.sendAgain(now)
	}
}

// sendAgain sends packet una again, and no other, unless that has just happened.
func (qp *QP) sendAgain(now time.Duration) bool {
	r := &qp.req
	if r.una >= r.nxt {
		return false // the requester went back already
	}
	if r.resent == r.una {
		if now-r.resentAt < r.trip.mean+r.trip.deviation || r.trip.mean == 0 {
			return false
		}
		r.timed = nowhere
	} else {
		qp.lost(now)
		r.timed, r.timedAt = r.una, now
		if r.una != r.rowEnd {
			r.inRow = 0
		}
		r.inRow, r.rowEnd = r.inRow+1, r.una+1
		if r.inRow > mostInRow && r.responder == buffersPackets {
			r.inRow, r.responder, r.unbuffered = 0, unknownResponder, 0
		}
	}
	r.again, r.resent, r.resentAt = r.una, r.una, now
	qp.wake = true
	qp.engine.counters.add(Retransmits, 1)
	qp.setTailProbe(now)
	return true
}

// learn notes what an answer says of the responder, if the requester holds everything back but packet
// resent. more is true for a NAK: there is another gap. stands is true for an ACK, which says where
// the responder stands.
func (qp *QP) learn(more, stands bool) {
	r := &qp.req
	if !r.hold || r.una <= r.resent {
		return
	}
	switch {
	case r.again == r.resent: // it was only late, and came before it was sent again
		r.hold = false
	case more || r.una > r.heldTo:
		r.hold, r.responder, r.unbuffered = false, buffersPackets, 0
	case r.una >= r.nxt:
		r.hold = false
	case stands:
		qp.notBuffered()
	}
	qp.wake = true
}

// notBuffered goes back, because the packets behind the gap are gone. Once proves nothing: perhaps all of them
// were lost, too.
func (qp *QP) notBuffered() {
	r := &qp.req
	r.responder = unknownResponder
	if r.unbuffered++; r.unbuffered >= gapsToLearn {
		r.responder = goesBack
	}
	qp.goBack()
}

// doubt notes another gap behind which the responder had nothing. Sometimes that is a mistake: the responder had no
// buffer to spare. So after many gaps the next one shows whether it still buffers nothing.
func (qp *QP) doubt() {
	r := &qp.req
	if r.unbuffered++; r.unbuffered >= gapsToDoubt {
		r.responder, r.unbuffered = unknownResponder, gapsToLearn-1
	}
}

// forgetRecovery ends what is under way, because the requester goes back.
func (r *requester) forgetRecovery() {
	r.hold, r.probe = false, false
	r.again, r.resent, r.probed, r.timed = nowhere, nowhere, nowhere, nowhere
	r.reads.reset()
}

// mayRepair reports whether repairing may have a packet.
func (r *requester) mayRepair() bool { return r.again == r.una || r.probe || r.asked < r.askTo }

// repairing returns the packet that repairs a loss, if one is to be sent.
func (qp *QP) repairing() (o outgoing, ok bool) {
	r := &qp.req
	if r.again == r.una && r.una < r.nxt {
		w := r.wqe(r.head)
		o = qp.requestPacket(w, r.una)
		o.again, o.wqe, o.from, o.to = true, r.head, r.una, r.una+1
		if w.wr.Opcode == verbs.OpRDMARead {
			o.to = max(o.to, qp.lastMissing(r.una, qp.chunkEnd(w, r.una)))
		}
		return o, true
	}
	if o, ok = qp.askNext(); ok {
		return o, true
	}
	return outgoing{opcode: packet.RCSendOnly, path: qp.path, probe: true}, r.probe
}

// repaired notes that a packet that repairs a loss is sent.
func (qp *QP) repaired(now time.Duration, o *outgoing) {
	r := &qp.req
	if o.from == r.una {
		r.again, r.heldTo = nowhere, o.to
	}
	if w := r.wqe(o.wqe); w.wr.Opcode == verbs.OpRDMARead && o.from >= r.asked {
		for seq := o.from; seq < o.to; seq++ {
			if !r.hasArrived(seq) && (seq == o.from || r.hasArrived(seq-1)) {
				qp.lost(now) // once per run: a lost request loses all of its responses
			}
		}
		r.asked = qp.chunkEnd(w, o.from)
		qp.engine.counters.add(Retransmits, 1)
	}
}

// buildProbe fills in p, a duplicate of the last acknowledged packet.
func (qp *QP) buildProbe(p packet.Packet) {
	bth := p.BTH()
	bth.SetPSN(packet.NewPSN(uint32(qp.req.una - 1)))
	bth.SetDestQPN(qp.attr.DestQPN)
	bth.SetAckReq(true)
	qp.req.probe = false
}

// time begins to time the answer to packet seq, unless another one is timed.
func (r *requester) time(seq int64, now time.Duration) {
	if r.timed == nowhere {
		r.timed, r.timedAt = seq, now
	}
}

// answeredAt notes that the answers before una have come.
func (r *requester) answeredAt(now time.Duration) {
	if r.timed != nowhere && r.una > r.timed {
		r.trip.add(now - r.timedAt)
		r.timed = nowhere
	}
	r.tailProbes, r.tailProbe, r.probed = 0, never, nowhere
}

// canSend reports whether the state lets the requester send.
func (qp *QP) canSend() bool { return qp.attr.State == qpstate.RTS || qp.attr.State == qpstate.SQD }
