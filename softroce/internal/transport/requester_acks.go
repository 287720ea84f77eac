// The requester's other half: the peer's answers, and timeouts.
//
// receiveResponse handles an ACK, a NAK or a response with data. It moves una, completes work
// requests, and goes back to una if the answer shows that a packet was lost. expire goes back
// if no answer came in time. Everything here runs with the queue pair's lock held.

package transport

import (
	"encoding/binary"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

const atomicLen = 8

// receiveResponse processes an ACK, a NAK or a response.
func (qp *QP) receiveResponse(now time.Duration, p packet.Packet) {
	r := &qp.req
	before := r.una
	seq := before + int64(p.BTH().PSN().Sub(packet.NewPSN(uint32(before))))
	if seq == before-1 && r.probed != nowhere && p.Opcode() == packet.RCAcknowledge && p.AETH().Syndrome().Kind() == packet.KindACK {
		qp.answerToProbe(now)
		return
	}
	if seq < before || seq >= r.max {
		qp.engine.counters.add(DropStray, 1)
		return
	}
	switch p.Opcode().Operation() {
	case packet.OpReadResponse, packet.OpAtomicAcknowledge:
		if qp.arrive(now, seq) {
			qp.takeResponse(seq, p)
		} else if qp.canSend() && seq > r.una {
			qp.bufferResponse(now, seq, p)
		}
	default:
		if s := p.AETH().Syndrome(); s.Kind() == packet.KindRNR {
			qp.receiveRNR(now, seq, before, s)
			return
		}
		qp.receiveAETH(now, seq, p.AETH().Syndrome())
	}
	qp.passArrived()
	qp.progress(now, before)
}

// receiveAETH processes an ACK or NAK of packet seq. A NAK also acknowledges all packets
// before seq.
func (qp *QP) receiveAETH(now time.Duration, seq int64, s packet.Syndrome) {
	switch s.Kind() {
	case packet.KindACK:
		if qp.acknowledge(now, seq+1) {
			qp.learn(false, true)
		}
	case packet.KindNAK:
		if s == packet.NAKPSNSequence {
			if qp.acknowledge(now, seq) && !qp.req.waiting {
				if r := &qp.req; r.una == seq && seq < r.probed {
					qp.probeAnswered()
				}
				qp.learn(true, false)
				qp.lostRequest(now, seq)
			}
			return
		}
		status, known := nakStatus[s]
		if known && qp.arrive(now, seq) {
			qp.failHead(status)
		}
	}
}

// receiveRNR processes an RNR NAK: the peer had no receive for packet seq. The packets before
// seq are acknowledged. The requester then waits for as long as the peer asks. The wait must
// begin after progress, because progress would end it.
func (qp *QP) receiveRNR(now time.Duration, seq, before int64, s packet.Syndrome) {
	r := &qp.req
	if r.waiting && seq == r.una {
		return
	}
	arrived := qp.arrive(now, seq)
	qp.progress(now, before)
	if !arrived {
		return
	}
	if r.rnrRetries == 0 {
		qp.failHead(verbs.WCRNRRetryExcErr)
		return
	}
	if qp.attr.RNRRetry != rnrForever {
		r.rnrRetries--
	}
	qp.goBack()
	r.wentBack = nowhere
	r.tailProbe = never
	r.waiting, r.deadline = true, now+qpstate.RNRTimer(s.Value())
}

// rnrForever is the RNR_RETRY that means no limit.
const rnrForever = 7

var nakStatus = map[packet.Syndrome]verbs.WCStatus{
	packet.NAKInvalidRequest:    verbs.WCRemInvReqErr,
	packet.NAKRemoteAccess:      verbs.WCRemAccessErr,
	packet.NAKRemoteOperational: verbs.WCRemOpErr,
}

// arrive acknowledges the packets before seq. It returns whether the oldest work request now
// waits for seq. If not, an earlier response was lost.
func (qp *QP) arrive(now time.Duration, seq int64) bool {
	return qp.acknowledge(now, seq) && qp.req.una == seq && qp.sending()
}

// acknowledge marks the packets before to as acknowledged. It stops at a work request whose
// own response is missing: that response was lost, and the requester asks again. It returns
// false if the queue pair failed meanwhile.
func (qp *QP) acknowledge(now time.Duration, to int64) bool {
	r := &qp.req
	for r.una < to {
		w := r.wqe(r.head)
		if w.answered() {
			qp.lostResponse(now, to)
			return true
		}
		r.una = min(w.end(), to)
		qp.retire()
		if !qp.canSend() {
			return false
		}
	}
	return true
}

// progress notes that una may have moved from before, which shows that the peer is alive.
func (qp *QP) progress(now time.Duration, before int64) {
	r := &qp.req
	if r.una == before || !qp.canSend() {
		qp.peerAnswered(now)
		return
	}
	qp.acked(now, r.una-before)
	r.nxt = max(r.nxt, r.una)
	r.retries, r.rnrRetries, r.starvedTimeouts, r.grown = qp.attr.RetryCnt, qp.attr.RNRRetry, 0, 0
	r.waiting = false
	r.deadline = never
	r.answeredAt(now)
	qp.learn(false, false)
	if r.una < r.max {
		qp.setDeadline(now)
	}
	if r.una < r.nxt {
		qp.setTailProbe(now)
	}
	qp.wake = qp.wake || r.cur != r.tail // the window may have room now
}

// takeResponse processes response packet seq, which the oldest work request waits for.
func (qp *QP) takeResponse(seq int64, p packet.Packet) {
	w := qp.req.wqe(qp.req.head)
	switch h := p.AtomicAckETH(); {
	case !p.Opcode().Serves(w.wr.Opcode):
		qp.engine.counters.add(DropStray, 1)
	case h != nil:
		qp.takeAtomicResponse(w, seq, h.Orig())
	case !w.fetches():
		qp.takeEmptyResponse(w, seq, p.Payload())
	default:
		qp.takeReadResponse(w, seq, p.Payload())
	}
}

// takeReadResponse stores the data of READ response packet seq. It checks the number and the
// length of the packet. It ignores whether the packet is FIRST, MIDDLE or LAST, because
// responders differ in the opcodes of a repeated response.
func (qp *QP) takeReadResponse(w *sendWQE, seq int64, payload []byte) {
	off := int(seq-w.first) * qp.mtu
	switch {
	case len(payload) != min(qp.mtu, w.length-off):
		qp.failHead(verbs.WCBadRespErr)
		return
	case !qp.scatter(qp.pd, w.wr.SGL, off, payload):
		qp.failHead(verbs.WCLocProtErr)
		return
	}
	qp.passAnswer(w, seq, qp.chunkEnd(w, seq))
}

// takeEmptyResponse processes the response to an ATOMIC WRITE or a FLUSH.
func (qp *QP) takeEmptyResponse(w *sendWQE, seq int64, payload []byte) {
	if len(payload) != 0 {
		qp.failHead(verbs.WCBadRespErr)
		return
	}
	qp.passAnswer(w, seq, seq+1)
}

// takeAtomicResponse stores the old value that an atomic returns, in host byte order.
func (qp *QP) takeAtomicResponse(w *sendWQE, seq int64, value uint64) {
	var bytes [atomicLen]byte
	binary.NativeEndian.PutUint64(bytes[:], value)
	if !qp.scatter(qp.pd, w.wr.SGL, 0, bytes[:]) {
		qp.failHead(verbs.WCLocProtErr)
		return
	}
	qp.passAnswer(w, seq, seq+1)
}

// passAnswer moves una past response packet seq. The packets of the request that was sent for
// it end before end.
func (qp *QP) passAnswer(w *sendWQE, seq, end int64) {
	r := &qp.req
	if r.hasArrived(seq) {
		r.arrived[seq%reorderReach/64] &^= 1 << (seq % 64)
		r.arrivals--
	}
	r.una = seq + 1
	if r.una == end && end <= r.nxt {
		r.answersDue-- // otherwise the request has not been sent again since r went back
	}
	qp.retire()
}

// goBackOnce sends again from una, because a packet was lost. It goes back only once per una.
// Later signs of the same loss are ignored, and then the timer decides. goBackOnce returns false for those.
func (qp *QP) goBackOnce(now time.Duration) bool {
	r := &qp.req
	if r.wentBack == r.una {
		return false
	}
	r.wentBack = r.una
	qp.lostAll(now)
	qp.goBack()
	return true
}

func (qp *QP) goBack() {
	r := &qp.req
	if r.una < r.nxt {
		qp.engine.counters.add(Retransmits, 1)
	}
	r.nxt, r.cur = r.una, r.head
	r.answersDue, r.sinceAckReq = 0, 0
	r.tailProbe = never
	r.forgetRecovery()
	qp.wake = true
}

// minTimeout is the shortest ACK timeout. With a shorter one, a busy machine would seem to
// lose packets.
const minTimeout = 2 * time.Millisecond

// patience limits how far the timeout grows while the peer is silent, as a power of two. The
// standard allows a requester to wait for one to four times the timeout. The first wait is
// short, to repair losses quickly. Later waits are longer, because a peer in software may get
// no processor time for half a second. With TIMEOUT 14 and RETRY_CNT 7 the peer has 1.8 s
// instead of 0.54 s.
const patience = 2

// setDeadline begins the wait for an answer. To go back does not begin it again: a peer may answer every probe, and never
// get the packets.
func (qp *QP) setDeadline(now time.Duration) {
	qp.req.deadline, qp.req.asking = never, qp.req.una < qp.req.nxt
	if qp.attr.Timeout != 0 {
		qp.req.deadline = now + qp.ackTimeout()
	}
}

// ackTimeout returns how long the requester waits for an answer now.
func (qp *QP) ackTimeout() time.Duration {
	return max(qpstate.ACKTimeout(qp.attr.Timeout), minTimeout) << qp.req.grown
}

// expire handles an expired deadline: the end of an ACK's or a response's wait, of a wait for RNR, for room or for a rate,
// a tail-loss probe, or an ACK timeout. RETRY_CNT is the number of retries. As in hardware, 7 is not
// special; in rxe it means no limit.
func (qp *QP) expire(now time.Duration) {
	r := &qp.req
	if now >= qp.resp.waits {
		qp.waitIsOver()
	}
	if now >= qp.paced.resumes {
		qp.paced.resumes, qp.wake = never, true
	}
	if now >= r.tailProbe && qp.canSend() {
		qp.probeTail(now)
	}
	if now < r.deadline || !qp.canSend() {
		return
	}
	began := r.deadline - qp.ackTimeout()
	r.deadline = never
	if r.waiting {
		r.waiting = false
		qp.wake = true
		return
	}
	if r.una >= r.untaken {
		return // the oldest packet waits here; see taken
	}
	inLine := r.una >= r.nxt // the route has had no room: the peer was asked nothing
	if inLine && !qp.unproven() {
		return
	}
	if !inLine {
		qp.engine.counters.add(Timeouts, 1)
	}
	if qp.starved(now, began) {
		return
	}
	if r.retries == 0 {
		qp.failHead(verbs.WCRetryExcErr)
		return
	}
	r.retries--
	r.grown = min(qp.attr.RetryCnt-r.retries, patience)
	r.wentBack = nowhere
	qp.timedOut(now)
	switch {
	case r.untaken != allTaken:
		qp.setDeadline(now) // what waits here is not built again
	case r.retries == 0 || qp.repeatable():
		qp.goBack()
	default:
		qp.sendProbe()
		qp.setDeadline(now)
	}
}
