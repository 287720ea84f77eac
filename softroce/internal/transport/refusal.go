// Refusing requests. A NAK other than RNR and sequence NAKs ends the queue pair. The responder
// repeats it for as long as the peer repeats requests, because a NAK may be lost.

package transport

import (
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// refusal is the NAK that ended a queue pair.
type refusal struct {
	syndrome packet.Syndrome // 0: no NAK, or one that must not be repeated
	first    int64           // first packet of the refused request
	seq      int64           // the request's first packet without an answer
}

// refuse answers the expected request with a NAK that ends the queue pair. The receive in use
// completes with status, and the queue pair goes to ERR.
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
	if qp.attr.State == qpstate.Error { // a CQ overran meanwhile, or a later request was refused before
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

// refuseAgain repeats the NAK that ended the queue pair, for any request. If the request is an
// earlier READ or atomic, its response was lost, and a queue pair in ERR sends no responses. So
// the NAK then refuses that request. An earlier SEND or WRITE was served, and a NAK of a later
// request acknowledges it.
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

// lostRegion handles a READ whose region was closed before the whole response was sent.
func (qp *QP) lostRegion(s *slot) {
	a := &qp.resp.answers
	if s.repeated {
		// The request may be an old duplicate, which must not end this queue pair. The peer
		// ignores a NAK for packets that it has received.
		s.due = false
		a.due--
		if !a.nakDue {
			qp.nak(packet.NAKRemoteAccess, s.at)
		}
		return
	}
	for i := range a.slots { // the peer accepts no answer after this NAK
		a.slots[i].due = false
	}
	a.due = 0
	qp.refuseAt(refusal{syndrome: packet.NAKRemoteAccess, first: s.first, seq: s.at}, verbs.WCRemAccessErr)
}

// receiveMalformed processes a packet that Parse rejected. RC answers with a NAK, so that the
// peer does not repeat its request in vain. Because the NAK ends the queue pair, the packet
// must come from the connected peer and have the expected number.
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
