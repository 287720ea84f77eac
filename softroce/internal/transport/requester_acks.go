// The requester's other half: what the peer answers, and what to do if it does not.

package transport

import (
	"encoding/binary"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

const atomicLen = 8

// receiveResponse takes in an acknowledgement or a response with data.
func (qp *QP) receiveResponse(now time.Duration, p packet.Packet) {
	r := &qp.req
	before := r.una
	seq := before + int64(p.BTH().PSN().Sub(packet.NewPSN(uint32(before))))
	if seq < before || seq >= r.max {
		qp.engine.counters.add(DropStray, 1)
		return
	}
	switch p.Opcode().Operation() {
	case packet.OpReadResponse, packet.OpAtomicAcknowledge:
		if qp.arrive(seq) {
			qp.takeResponse(seq, p)
		}
	default:
		if s := p.AETH().Syndrome(); s.Kind() == packet.KindRNR {
			qp.receiveRNR(now, seq, before, s)
			return
		}
		qp.receiveAETH(seq, p.AETH().Syndrome())
	}
	qp.progress(now, before)
}

// receiveAETH takes in an ACK or NAK about packet seq. A NAK also acknowledges
// all packets before its own.
func (qp *QP) receiveAETH(seq int64, s packet.Syndrome) {
	switch s.Kind() {
	case packet.KindACK:
		qp.acknowledge(seq + 1)
	case packet.KindNAK:
		if s == packet.NAKPSNSequence {
			if qp.acknowledge(seq) && !qp.req.waiting {
				qp.goBackOnce()
			}
			return
		}
		status, known := nakStatus[s]
		if known && qp.arrive(seq) {
			qp.failHead(status)
		}
	}
}

// receiveRNR takes in that the peer had no receive for packet seq: what came before
// is acknowledged, and seq waits for as long as the peer asks. The wait begins after
// the progress is noted, which would end it.
func (qp *QP) receiveRNR(now time.Duration, seq, before int64, s packet.Syndrome) {
	r := &qp.req
	if r.waiting && seq == r.una {
		return
	}
	arrived := qp.arrive(seq)
	qp.progress(now, before)
	if !arrived {
		return
	}
	if r.rnrRetries == 0 {
		qp.failHead(verbs.WCRNRRetryExcErr)
		return
	}
	if qp.attr.RNRRetry != rnrForEver {
		r.rnrRetries--
	}
	qp.goBack()
	r.wentBack = nowhere
	r.waiting, r.deadline = true, now+qpstate.RNRTimer(s.Value())
}

// rnrForEver is the RNR_RETRY that never gives up.
const rnrForEver = 7

var nakStatus = map[packet.Syndrome]verbs.WCStatus{
	packet.NAKInvalidRequest:    verbs.WCRemInvReqErr,
	packet.NAKRemoteAccess:      verbs.WCRemAccessErr,
	packet.NAKRemoteOperational: verbs.WCRemOpErr,
}

// arrive acknowledges what was before seq and says whether seq is now what the
// oldest request waits for. If not, a response was lost.
func (qp *QP) arrive(seq int64) bool {
	return qp.acknowledge(seq) && qp.req.una == seq && qp.sending()
}

// acknowledge takes the packets before to as served, but stops at a READ or an
// atomic whose response did not come: that is lost, and asked for again. False if
// the queue pair failed on the way.
func (qp *QP) acknowledge(to int64) bool {
	r := &qp.req
	for r.una < to {
		w := r.wqe(r.head)
		if w.answered() {
			qp.goBackOnce()
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

func (qp *QP) canSend() bool { return qp.attr.State == qpstate.RTS || qp.attr.State == qpstate.SQD }

// progress is called after una may have moved from before: the peer is alive.
func (qp *QP) progress(now time.Duration, before int64) {
	r := &qp.req
	if r.una == before || !qp.canSend() {
		return
	}
	r.window.grow(r.una-before, max(r.nxt, r.una)-before)
	r.nxt = max(r.nxt, r.una)
	r.retries, r.rnrRetries = qp.attr.RetryCnt, qp.attr.RNRRetry
	r.waiting = false
	r.deadline = never
	if r.una < r.max {
		qp.setDeadline(now)
	}
	qp.wake = qp.wake || r.cur != r.tail // the window may have opened
}

// takeResponse takes in packet seq, which the oldest request waits for.
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

// takeReadResponse stores the response packet that the oldest request waits for.
// What counts is its number and the bytes still missing, not whether it calls
// itself first, middle or last: responders differ in what they call the packets
// of a repeated response.
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

// takeEmptyResponse takes in the answer to an ATOMIC WRITE or a FLUSH.
func (qp *QP) takeEmptyResponse(w *sendWQE, seq int64, payload []byte) {
	if len(payload) != 0 {
		qp.failHead(verbs.WCBadRespErr)
		return
	}
	qp.passAnswer(w, seq, seq+1)
}

// takeAtomicResponse stores the value that an atomic found, in host order.
func (qp *QP) takeAtomicResponse(w *sendWQE, seq int64, value uint64) {
	var bytes [atomicLen]byte
	binary.NativeEndian.PutUint64(bytes[:], value)
	if !qp.scatter(qp.pd, w.wr.SGL, 0, bytes[:]) {
		qp.failHead(verbs.WCLocProtErr)
		return
	}
	qp.passAnswer(w, seq, seq+1)
}

// passAnswer moves on past the response packet seq, of a request that was sent as
// a whole up to packet end.
func (qp *QP) passAnswer(w *sendWQE, seq, end int64) {
	r := &qp.req
	r.una = seq + 1
	if r.una == end && end <= r.nxt {
		r.answersDue-- // else it was not asked again since r went back
	}
	qp.retire()
}

// goBackOnce resends from una, since a packet was lost; if that was said before
// of the same packet it waits for the timer, lest echoes of one loss multiply.
func (qp *QP) goBackOnce() {
	r := &qp.req
	if r.wentBack == r.una {
		return
	}
	r.wentBack = r.una
	r.window.shrink()
	qp.goBack()
}

func (qp *QP) goBack() {
	r := &qp.req
	r.nxt, r.cur = r.una, r.head
	r.answersDue, r.sinceAckReq = 0, 0
	qp.wake = true
	qp.engine.counters.add(Retransmits, 1)
}

// minTimeout is the shortest ACK timeout: below it a busy machine would see
// losses where there are none.
const minTimeout = 2 * time.Millisecond

// patience is how far the timeout grows while the peer says nothing, as a power of
// two. The standard lets an answer be overdue after the timeout or after up to four
// times as long. A lost packet is asked for again as soon as it may be; but a peer in
// software may get no processor for half a second, and is not dead for that: with
// TIMEOUT 14 and RETRY_CNT 7 it has 1.8 s, not 0.54 s.
const patience = 2

func (qp *QP) setDeadline(now time.Duration) {
	qp.req.deadline = never
	if t := qpstate.ACKTimeout(qp.attr.Timeout); t != 0 {
		inVain := qp.attr.RetryCnt - qp.req.retries
		qp.req.deadline = now + max(t, minTimeout)<<min(inVain, patience)
	}
}

// expire does what is due: the peer's RNR timer has run out, or an answer is
// overdue. RETRY_CNT is the number of times that it is asked for again, 7 too,
// as in hardware; rxe takes 7 for no limit.
func (qp *QP) expire(now time.Duration) {
	r := &qp.req
	if now < r.deadline || !qp.canSend() {
		return
	}
	r.deadline = never
	if r.waiting {
		r.waiting = false
		qp.wake = true
		return
	}
	qp.engine.counters.add(Timeouts, 1)
	if r.retries == 0 {
		qp.failHead(verbs.WCRetryExcErr)
		return
	}
	r.retries--
	r.wentBack = nowhere
	r.window.shrink()
	qp.goBack()
}
