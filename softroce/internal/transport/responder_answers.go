// The responder's answers: responses to READs, atomics, ATOMIC WRITEs and FLUSHes, and one ACK
// or NAK. They are sent in the order of the requests. An ACK before the response of an earlier
// READ would make the requester believe that the response is lost.
//
// A ring of slots remembers the requests with a response of their own, so that a repeated
// request gets the same answer. Everything here runs with the queue pair's lock held.

package transport

import (
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// answers is the sending part of the responder.
type answers struct {
	slots   []slot // a ring as long as the largest MAX_DEST_RD_ATOMIC so far
	slot    int    // index of the oldest, which is the next to be used
	due     int    // number of slots with something to send
	current *slot  // the slot being answered; nil: find it

	ackDue bool
	ackTo  int64
	nakDue bool
	nakFor packet.Syndrome
	nakSeq int64
	msn    uint32

	established bool
	exchange
}

// slot remembers a request that has its own response, so that it can be answered, and answered
// again.
type slot struct {
	operation      packet.Operation // NoOperation: the slot is unused
	first, packets int64
	msn            uint32

	va     uint64 // READ
	rkey   uint32
	length int
	found  uint64 // atomic: the old value

	due      bool
	repeated bool  // the answer was sent before
	at       int64 // number of the next response packet
	until    int   // byte at which the response ends
}

// forgetAnswers drops all answers.
func (a *answers) forgetAnswers() {
	for i := range a.slots {
		a.slots[i] = slot{}
	}
	a.due, a.ackDue, a.nakDue, a.current = 0, false, false, nil
}

// OwesAnswer reports whether an ACK or NAK is due, or an Outbox holds an answer. Close, and the
// move to RESET, drop an ACK or NAK that is due. An ACK that waits is sent by the next Transmit.
func (qp *QP) OwesAnswer() bool {
	qp.mu.Lock()
	defer qp.unlock()
	qp.waitIsOver()
	return qp.resp.ackDue || qp.resp.nakDue || qp.answering.Load()
}

// growSlots makes room for n READs and atomics. The ring never shrinks and keeps its slots,
// because the peer may repeat any request that it was allowed before.
func (a *answers) growSlots(n int) {
	if n <= len(a.slots) {
		return
	}
	slots := make([]slot, 0, n)
	slots = append(append(slots, a.slots[a.slot:]...), a.slots[:a.slot]...) // the oldest first
	a.slots, a.slot, a.current = slots[:n], len(slots), nil
}

// slotFree reports whether a slot is free for another request. This is always true for a peer
// that observes MAX_DEST_RD_ATOMIC.
func (qp *QP) slotFree() bool {
	if qp.attr.MaxDestRdAtomic == 0 {
		return false
	}
	s := &qp.resp.slots[qp.resp.slot]
	return !s.due || s.repeated
}

func (qp *QP) addSlot(s slot) {
	a := &qp.resp.answers
	if a.slots[a.slot].due {
		a.due--
	}
	s.due, s.msn = true, a.msn+1
	a.slots[a.slot] = s
	a.slot = (a.slot + 1) % len(a.slots)
	a.due++
	a.current = nil
	qp.wake = true
}

// nak schedules a NAK for packet seq.
func (qp *QP) nak(s packet.Syndrome, seq int64) {
	a := &qp.resp.answers
	a.nakDue, a.nakFor, a.nakSeq = true, s, seq
	qp.wake = true
}

// acknowledgeUpTo schedules an ACK of seq and all packets before it.
func (qp *QP) acknowledgeUpTo(seq int64) {
	a := &qp.resp.answers
	if !a.ackDue || seq > a.ackTo {
		a.ackTo = seq
	}
	a.ackDue, qp.wake = true, true
}

// repeat answers a request that was served before, without executing it again.
func (qp *QP) repeat(p packet.Packet, seq int64) {
	a := &qp.resp.answers
	operation := p.Opcode().Operation()
	if !operation.HasResponse() {
		// The ACK must not include a later READ or atomic, because the peer may not have its
		// response.
		to := qp.resp.expected - 1
		for i := range a.slots {
			if s := &a.slots[i]; s.operation != packet.NoOperation && s.first > seq {
				to = min(to, s.first-1)
			}
		}
		if rs := &qp.resp; len(rs.reorder.packets) > 0 && to == rs.expected-1 && p.BTH().AckReq() {
			qp.nak(packet.NAKPSNSequence, rs.expected) // the first NAK may be lost
			return
		}
		qp.acknowledgeUpTo(to)
		return
	}
	for i := range a.slots {
		s := &a.slots[i]
		if s.operation != operation || seq < s.first || seq >= s.first+s.packets {
			continue
		}
		if operation == packet.OpReadRequest {
			qp.repeatRead(s, p.RETH(), seq)
		} else {
			qp.answerAgain(s)
		}
		return
	}
	qp.engine.counters.add(DropStray, 1)
}

// repeatRead answers a READ request again, from packet seq on. These packets are MIDDLE and
// LAST if seq is not the first, because rxe's requester continues the response that it has and
// rejects a FIRST there.
func (qp *QP) repeatRead(s *slot, h *packet.RETH, seq int64) {
	off := int(seq-s.first) * qp.mtu
	n, fits := messageLength(h)
	if !fits || h.RKey() != s.rkey || h.VA() != s.va+uint64(off) || n > s.length-off {
		qp.engine.counters.add(DropStray, 1)
		return
	}
	s.at, s.until = seq, off+n
	qp.answerAgain(s)
}

func (qp *QP) answerAgain(s *slot) {
	if !s.due {
		s.due, s.repeated = true, true
		qp.resp.due++
	}
	qp.resp.current = nil // this slot may be older
	qp.wake = true
}

// oldestDue returns the slot to answer first. There must be one.
func (a *answers) oldestDue() *slot {
	for i := a.slot; a.current == nil || !a.current.due; i++ {
		if i == len(a.slots) {
			i = 0
		}
		a.current = &a.slots[i]
	}
	return a.current
}

// nextAnswer chooses the responder's next packet. It returns false if nothing is due, or if a READ response must wait.
func (qp *QP) nextAnswer(now time.Duration) (o outgoing, ok bool) {
	a := &qp.resp.answers
	o = outgoing{path: qp.path, answer: true, opcode: packet.RCAcknowledge}
	if a.due == 0 {
		return o, a.ackDue || a.nakDue
	}
	s := a.oldestDue()
	place := packet.Only
	if s.operation == packet.OpReadRequest {
		off := int(s.at-s.first) * qp.mtu
		o.payload = min(qp.mtu, s.until-off)
		place = packet.PlaceOf(s.at == s.first, off+o.payload == s.until)
	}
	o.opcode = s.operation.Response(place)
	return o, !qp.isLong(s) || !qp.waitsFor(now, qp.route)
}

// isLong reports whether a slot's response obeys the route's rate. Shorter ones do not: a requester of this package asks for
// no more at once, because its own window limits it, and two limits would leave a part of the path unused.
func (qp *QP) isLong(s *slot) bool {
	return s.operation == packet.OpReadRequest && s.packets > int64(qp.engine.cfg.ReadChunk)
}

// buildAnswer fills in p, the packet that nextAnswer chose. It returns false if there is
// nothing to send any more.
func (qp *QP) buildAnswer(p packet.Packet) bool {
	a := &qp.resp.answers
	p.BTH().SetDestQPN(qp.attr.DestQPN)
	if a.due == 0 {
		if !a.ackDue && !a.nakDue {
			return false
		}
		seq, syndrome := a.ackTo, accepted
		if a.nakDue {
			seq, syndrome = a.nakSeq, a.nakFor
		}
		p.BTH().SetPSN(packet.NewPSN(uint32(seq)))
		p.AETH().Set(syndrome, a.msn)
		a.ackDue = a.ackDue && a.nakDue && a.ackTo >= a.nakSeq // keep an ACK that the NAK does not include
		a.nakDue = false
		return true
	}
	s := a.oldestDue()
	seq := s.first
	ends := true
	if s.operation == packet.OpReadRequest {
		seq = s.at
		if !qp.snapshotRead(p.Payload(), s) {
			qp.lostRegion(s)
			return false
		}
		if qp.isLong(s) {
			qp.paced.built(len(p.Bytes()))
		}
		s.at++
		ends = p.Opcode().EndsMessage()
	} else if h := p.AtomicAckETH(); h != nil {
		h.Set(s.found)
	}
	p.BTH().SetPSN(packet.NewPSN(uint32(seq)))
	if h := p.AETH(); h != nil {
		h.Set(accepted, s.msn)
		if a.ackDue && a.ackTo <= seq {
			a.ackDue, a.waits = false, never // this response includes the ACK
		}
	}
	if ends {
		s.due = false
		if a.due--; a.due == 0 {
			qp.paced.end()
		}
	}
	return true
}

// snapshotRead copies the payload of the next packet of a READ response. It returns false if
// the region is gone.
func (qp *QP) snapshotRead(dst []byte, s *slot) bool {
	if len(dst) == 0 {
		return true
	}
	va := s.va + uint64(s.at-s.first)*uint64(qp.mtu)
	return qp.touchRemote(s.rkey, va, len(dst), verbs.AccessRemoteRead, func(src []byte) { move(dst, src) })
}
