// Refusing: what a responder says when it does not serve a request. A NAK for good ends
// the queue pair, and is repeated for as long as the peer asks, because NAKs get lost, too.

package transport

import (
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// refusal is the NAK that ended the queue pair.
type refusal struct {
	syndrome packet.Syndrome // 0: none, or one that is not to be repeated
	first    int64           // the first packet of the request that was refused
	seq      int64           // the first packet of it that is not answered
}

// refuse answers the expected request with a NAK for good: the receive in use completes
// with status, and the queue pair goes to ERR.
func (qp *QP) refuse(syndrome packet.Syndrome, status verbs.WCStatus) {
	qp.refuseAt(refusal{syndrome: syndrome, first: qp.resp.expected, seq: qp.resp.expected}, status)
}

func (qp *QP) refuseAt(r refusal, status verbs.WCStatus) {
	rs := &qp.resp
	if rs.ackTo >= r.seq {
		rs.ackDue = false
	}
	qp.nak(r.syndrome, r.seq)
	if rs.haveRecv {
		qp.failRecv(status)
	}
	if qp.attr.State == qpstate.Error { // a CQ has overrun meanwhile, or a later request was refused before
		if rs.refused.syndrome != 0 {
			rs.refused = r
		}
		return
	}
	if r.syndrome == packet.NAKRemoteAccess {
		qp.event(verbs.EventQPAccessErr)
	} else {
		qp.event(verbs.EventQPReqErr)
	}
	qp.fail(r)
}

// refuseAgain repeats the NAK that ended the queue pair, whatever the peer asks for again.
// If that is an earlier READ or atomic, its answer was lost, and a queue pair in ERR gives
// no answers: the NAK then refuses that request. An earlier SEND or WRITE was served, and a
// NAK of a later request acknowledges it.
func (qp *QP) refuseAgain(operation packet.Operation, seq int64) {
	rs := &qp.resp
	r := rs.refused
	if seq < r.seq && operation.HasResponse() {
		if seq < r.first {
			r.syndrome = packet.NAKRemoteOperational
		}
		r.seq = seq
	}
	if !rs.nakDue || r.seq < rs.nakSeq {
		qp.nak(r.syndrome, r.seq)
	}
}

// lostRegion is for a READ whose region was closed before all of the response was sent.
func (qp *QP) lostRegion(s *slot) {
	a := &qp.resp.answers
	if s.repeated {
		// The request may be an old duplicate, which must not end this queue pair. The
		// peer ignores a NAK for what it has received.
		s.due = false
		a.due--
		if !a.nakDue {
			qp.nak(packet.NAKRemoteAccess, s.at)
		}
		return
	}
	for i := range a.slots { // the peer takes no answer beyond this one's
		a.slots[i].due = false
	}
	a.due = 0
	qp.refuseAt(refusal{syndrome: packet.NAKRemoteAccess, first: s.first, seq: s.at}, verbs.WCRemAccessErr)
}

// receiveMalformed takes in what Parse refused. RC answers by a NAK, so that the peer does
// not repeat its request in vain. The NAK ends the queue pair, so the packet must come
// from the connected peer and have the expected number.
func (qp *QP) receiveMalformed(p packet.Packet, d *Datagram) {
	rs := &qp.resp
	if op := p.Opcode(); qp.kind == verbs.RC && op.InRC() && !op.IsResponse() && qp.path != nil && !qp.foreign(p, d) {
		seq := rs.sequence(p)
		switch qp.attr.State {
		case qpstate.RTR, qpstate.RTS, qpstate.SQD:
			if seq == rs.expected {
				rs.silent, rs.nakDue = false, false
				qp.establish()
				qp.refuse(packet.NAKInvalidRequest, verbs.WCRemInvReqErr)
				return
			}
		case qpstate.Error:
			if rs.refused.syndrome != 0 && seq >= rs.refused.seq {
				qp.refuseAgain(packet.NoOperation, seq)
				return
			}
		}
	}
	qp.engine.counters.add(DropMalformed, 1)
}
