// The responder: it serves the peer's requests in order.
//
//  1. receiveRequest compares the packet's number with the expected one: the packet is the
//     expected one, a repeated one, or one after a gap.
//  2. serve executes the expected packet, or returns the NAK that refuses it.
//  3. The answers that are due are kept (responder_answers.go) until the next Transmit. One ACK
//     answers many packets.
//
// Everything here runs with the queue pair's lock held.

package transport

import (
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

type responder struct {
	expected  int64            // number of the packet to be served next
	within    packet.Operation // operation of the unfinished message, or NoOperation
	off       int              // bytes served of that message
	total     int              // WRITE: its length
	va        uint64           // WRITE: its remote address
	rkey      uint32           // WRITE: its rkey
	region    *MR              // cache: the region of the last rkey
	haveRecv  bool
	recv      recvWQE // the receive in use, if haveRecv
	silent    bool    // a NAK was sent for expected; send no other until expected arrives
	waitsRecv bool    // that was an RNR NAK
	refused   refusal // in ERR: the NAK that ended the queue pair, if any
	reorder   reorderBuffer
	answers
}

func (rs *responder) reset() {
	*rs = responder{recv: recvWQE{sgl: rs.recv.sgl[:0]}}
	rs.waits = never
}

// sequence extends the packet's PSN to the count that is nearest to the expected one.
func (rs *responder) sequence(p packet.Packet) int64 {
	return rs.expected + int64(p.BTH().PSN().Sub(packet.NewPSN(uint32(rs.expected))))
}

// accepted is the syndrome of a request that was served: an ACK.
const accepted = packet.SyndromeACK

// receiveRequest processes a packet of the peer's requester (RC).
func (qp *QP) receiveRequest(now time.Duration, p packet.Packet) {
	rs, wake := &qp.resp, qp.wake
	seq := rs.sequence(p)
	switch {
	case qp.attr.State == qpstate.Error:
		qp.refuseAgain(p.Opcode().Operation(), seq)
		return
	case seq > rs.expected:
		qp.gap(qp.buffer(p, seq))
		return
	case seq < rs.expected:
		qp.engine.counters.add(Duplicates, 1)
		qp.repeat(p, seq)
		return
	}
	qp.establish()
	alone := len(rs.reorder.packets) == 0
	if qp.serveExpected(p) {
		qp.serveBuffered()
		qp.awaitReply(now, p, wake, alone)
	} else {
		qp.dropBuffered()
	}
}

// serveExpected serves the expected packet. It returns false if it refuses the packet.
func (qp *QP) serveExpected(p packet.Packet) bool {
	rs := &qp.resp
	rs.silent, rs.waitsRecv, rs.nakDue = false, false, false
	syndrome, status := qp.serve(p)
	switch {
	case syndrome == accepted:
		return true
	case syndrome.Kind() == packet.KindRNR:
		rs.silent, rs.waitsRecv = true, true
		qp.engine.counters.add(RNRNAKs, 1)
		qp.nak(syndrome, rs.expected)
	default:
		qp.refuse(syndrome, status)
	}
	return false
}

// establish reports COMM_EST once, if the peer sends before this side is moved to RTS.
func (qp *QP) establish() {
	if qp.attr.State == qpstate.RTR && !qp.resp.established {
		qp.resp.established = true
		qp.event(verbs.EventCommEst)
	}
}

// receiveUnreliable processes a packet of the peer's requester (UC). It drops a message with a
// missing packet, without any other check of the message.
func (qp *QP) receiveUnreliable(p packet.Packet) {
	rs := &qp.resp
	starts := p.Opcode().StartsMessage()
	seq := rs.sequence(p)
	if seq != rs.expected || starts {
		rs.within = packet.NoOperation // a receive taken for the dropped message serves the next message
	}
	if seq != rs.expected && !starts {
		qp.engine.counters.add(DropStray, 1)
		return
	}
	rs.expected = seq
	qp.establish()
	syndrome, status := qp.serve(p)
	if syndrome == accepted {
		return
	}
	rs.expected, rs.within = seq+1, packet.NoOperation
	switch {
	case syndrome.Kind() == packet.KindRNR:
		qp.missReceive()
	case status == verbs.WCLocLenErr:
		qp.tooLong()
	case status == verbs.WCLocProtErr: // the program's own receive is bad
		qp.failRecv(status)
		qp.fail(refusal{})
	default:
		qp.engine.counters.add(DropUnreliable, 1)
	}
}

// serve executes the expected packet. It returns accepted, or the NAK that refuses the packet
// and the status with which the receive in use, if any, completes.
func (qp *QP) serve(p packet.Packet) (packet.Syndrome, verbs.WCStatus) {
	rs := &qp.resp
	op := p.Opcode()
	operation := op.Operation()
	inOrder := rs.within == packet.NoOperation
	if !op.StartsMessage() {
		inOrder = rs.within == operation
	}
	if !inOrder || !p.PayloadFits(qp.mtu) {
		return packet.NAKInvalidRequest, verbs.WCRemInvReqErr
	}
	packets := int64(1)
	var syndrome packet.Syndrome
	status := verbs.WCSuccess
	switch operation {
	case packet.OpSend:
		syndrome, status = qp.serveSend(p)
	case packet.OpWrite:
		syndrome, status = qp.serveWrite(p)
	case packet.OpReadRequest:
		packets, syndrome = qp.serveRead(p.RETH())
	case packet.OpFlush:
		syndrome = qp.serveFlush(p.FETH(), p.RETH())
	case packet.OpAtomicWrite:
		syndrome = qp.serveAtomicWrite(p.RETH(), p.Payload())
	default:
		syndrome = qp.serveAtomic(operation, p.AtomicETH())
	}
	if syndrome != accepted {
		return syndrome, status
	}
	rs.expected += packets
	rs.within = operation
	if op.EndsMessage() {
		rs.within = packet.NoOperation
		rs.msn++
	}
	if p.BTH().AckReq() && qp.kind == verbs.RC {
		qp.acknowledgeUpTo(rs.expected - 1)
	}
	return accepted, verbs.WCSuccess
}

// serveSend copies a packet of a SEND into the receive that the first packet took.
func (qp *QP) serveSend(p packet.Packet) (packet.Syndrome, verbs.WCStatus) {
	rs := &qp.resp
	op, payload := p.Opcode(), p.Payload()
	if op.StartsMessage() {
		if !qp.takeRecv() {
			return packet.RNRSyndrome(qp.attr.MinRNRTimer), verbs.WCSuccess
		}
		rs.off = 0
	}
	if uint64(rs.off+len(payload)) > rs.recv.length {
		return packet.NAKInvalidRequest, verbs.WCLocLenErr
	}
	if !qp.scatter(qp.recvPD, rs.recv.sgl, rs.off, payload) {
		return packet.NAKRemoteOperational, verbs.WCLocProtErr
	}
	rs.off += len(payload)
	if !op.EndsMessage() {
		return accepted, verbs.WCSuccess
	}
	wc := verbs.WC{Opcode: verbs.WCRecv, ByteLen: uint32(rs.off)}
	if h := p.ImmDt(); h != nil {
		wc.SetImm(h.Data())
	}
	if h := p.IETH(); h != nil {
		if !qp.invalidate(h.RKey()) {
			return packet.NAKInvalidRequest, verbs.WCRemInvReqErr
		}
		wc.SetInvalidatedRKey(h.RKey())
	}
	qp.completeRecv(&wc, p.BTH().Solicited())
	return accepted, verbs.WCSuccess
}

// serveWrite copies a packet of a WRITE into the region that the first packet named.
func (qp *QP) serveWrite(p packet.Packet) (packet.Syndrome, verbs.WCStatus) {
	rs := &qp.resp
	op, payload := p.Opcode(), p.Payload()
	off, total, va, rkey := rs.off, rs.total, rs.va, rs.rkey
	if h := p.RETH(); h != nil {
		var fits bool
		off, va, rkey = 0, h.VA(), h.RKey()
		if total, fits = messageLength(h); !fits || !qp.allows(verbs.AccessRemoteWrite) {
			return packet.NAKInvalidRequest, verbs.WCRemInvReqErr
		}
		if total > 0 && !qp.remoteAllowed(va, rkey, total, verbs.AccessRemoteWrite) {
			return packet.NAKRemoteAccess, verbs.WCRemAccessErr
		}
	}
	if left := total - off - len(payload); left < 0 || op.EndsMessage() != (left == 0) {
		return packet.NAKInvalidRequest, verbs.WCRemInvReqErr
	}
	imm := p.ImmDt()
	if imm != nil && !qp.takeRecv() {
		return packet.RNRSyndrome(qp.attr.MinRNRTimer), verbs.WCSuccess
	}
	if len(payload) > 0 {
		if !qp.touchRemote(rkey, va+uint64(off), len(payload), verbs.AccessRemoteWrite, func(dst []byte) { move(dst, payload) }) {
			return packet.NAKRemoteAccess, verbs.WCRemAccessErr
		}
	}
	rs.off, rs.total, rs.va, rs.rkey = off+len(payload), total, va, rkey
	if imm != nil {
		wc := verbs.WC{Opcode: verbs.WCRecvRDMAWithImm, ByteLen: uint32(total)}
		wc.SetImm(imm.Data())
		qp.completeRecv(&wc, p.BTH().Solicited())
	}
	return accepted, verbs.WCSuccess
}

// messageLength returns the length of a request's message. fits is false if the length exceeds
// 2³¹ bytes or does not fit into an int, which may have 32 bits.
func messageLength(h *packet.RETH) (n int, fits bool) {
	n = int(h.DMALen())
	return n, h.DMALen() <= 1<<31 && n >= 0
}

// serveRead remembers a READ request. The response is built when it is sent.
func (qp *QP) serveRead(h *packet.RETH) (packets int64, s packet.Syndrome) {
	n, fits := messageLength(h)
	if !fits || !qp.allows(verbs.AccessRemoteRead) || !qp.slotFree() {
		return 0, packet.NAKInvalidRequest
	}
	if n > 0 && !qp.remoteAllowed(h.VA(), h.RKey(), n, verbs.AccessRemoteRead) {
		return 0, packet.NAKRemoteAccess
	}
	packets = packetsFor(n, qp.mtu)
	first := qp.resp.expected
	qp.addSlot(slot{operation: packet.OpReadRequest, first: first, packets: packets, va: h.VA(), rkey: h.RKey(), length: n,
		at: first, until: n})
	return packets, accepted
}

func (qp *QP) remoteAllowed(va uint64, rkey uint32, n int, need verbs.Access) bool {
	mr := qp.remote(rkey)
	return mr != nil && mr.allows(qp.pd, va, n, need)
}

// takeRecv takes a receive for a message, unless the message has one already. It returns false
// if no receive is posted.
func (qp *QP) takeRecv() bool {
	rs := &qp.resp
	switch {
	case rs.haveRecv:
	case qp.srq != nil:
		rs.haveRecv = qp.srq.pop(&rs.recv)
	default:
		rs.haveRecv = qp.rq.pop(&rs.recv)
	}
	return rs.haveRecv
}

// missReceive counts a UC or UD message that is lost because no receive is posted.
func (qp *QP) missReceive() {
	qp.engine.counters.add(DropNoReceive, 1)
	qp.missed.Add(1)
}

// MissedReceives returns the number of such messages.
func (qp *QP) MissedReceives() uint64 { return qp.missed.Load() }

// completeRecv completes the receive in use.
func (qp *QP) completeRecv(wc *verbs.WC, solicited bool) {
	wc.ID, wc.QPN = qp.resp.recv.id, qp.qpn
	qp.resp.haveRecv = false
	if !qp.recvCQ.push(wc, solicited) {
		qp.overrun()
	}
}

// failRecv completes the receive in use with an error.
func (qp *QP) failRecv(status verbs.WCStatus) {
	qp.completeRecv(&verbs.WC{Status: status, Opcode: verbs.WCRecv}, false)
}

// flushRecvs completes all receives as flushed, except those of an SRQ.
func (qp *QP) flushRecvs() {
	rs := &qp.resp
	for rs.haveRecv || qp.rq.pop(&rs.recv) {
		rs.haveRecv = false
		wc := verbs.WC{ID: rs.recv.id, Status: verbs.WCWRFlushErr, Opcode: verbs.WCRecv, QPN: qp.qpn}
		qp.recvCQ.push(&wc, false)
	}
}
