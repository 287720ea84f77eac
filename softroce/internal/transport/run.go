// Runs: the middle packets of a long message differ only in their numbers and their payload. So a run of them is made, or
// served, at once: one look at the queue pair, one lock of the memory region, and one header with the number counted up.
//
// Only the last packet of a run may ask for an ACK. A packet that is the first or the last of its message, or that anything
// unusual concerns, is not part of a run. It goes the common way (requester.go, responder.go), and so does each packet of a run
// that fails.
//
// Everything here runs with the queue pair's lock held.

package transport

import (
	"encoding/binary"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// run is packets with payloads of mtu bytes. payload returns that of packet i.
type run struct {
	mtu     int
	payload func(i int) []byte
}

// parts calls f for each part of a piece of memory that one payload holds. at is the piece's position in the payloads of all
// packets.
func (r run) parts(piece []byte, at int, f func(payload, memory []byte)) {
	for len(piece) > 0 {
		payload := r.payload(at / r.mtu)[at%r.mtu:]
		n := min(len(payload), len(piece))
		f(payload[:n], piece[:n])
		piece, at = piece[n:], at+n
	}
}

// gatherRun fills the payloads of packets with the bytes of a list, from off on. It returns false like gather.
func (qp *QP) gatherRun(r run, packets int, sgl []verbs.SGE, off int) bool {
	return qp.eachPiece(qp.pd, sgl, off, packets*r.mtu, 0, func(piece []byte, at int) {
		r.parts(piece, at, func(payload, memory []byte) { move(payload, memory) })
	})
}

// scatterRun copies the payloads of packets to a list of pd's memory, from off on. It returns false like scatter.
func (qp *QP) scatterRun(r run, packets int, pd *PD, sgl []verbs.SGE, off int) bool {
	return qp.eachPiece(pd, sgl, off, packets*r.mtu, verbs.AccessLocalWrite, func(piece []byte, at int) {
		r.parts(piece, at, func(payload, memory []byte) { move(memory, payload) })
	})
}

// buildRun writes a run of at most most packets into buf, and returns their number and size. segment is the size of the
// packets before them in the burst, or 0. Answers go before requests, as in next.
func (qp *QP) buildRun(buf []byte, segment, most int, now time.Duration) (packets, size int, answers bool) {
	a := &qp.resp.answers
	var opcode packet.Opcode
	var alike int64
	switch {
	case qp.kind != verbs.RC || qp.cnpDue:
		return 0, 0, false
	case a.due > 0:
		opcode, alike, answers = packet.RCReadResponseMiddle, qp.responsesAlike(), true
	case !a.ackDue && !a.nakDue:
		opcode, alike = qp.requestsAlike()
	}
	size = packet.Len(opcode, qp.mtu)
	packets = min(int(alike), most, len(buf)/size)
	if packets < 1 || segment != 0 && segment != size {
		return 0, 0, false
	}
	header := opcode.HeaderLen()
	r := run{qp.mtu, func(i int) []byte { return buf[i*size+header:][:qp.mtu] }}
	var first int64
	var asks, ok bool
	if answers {
		first, ok = qp.takeResponses(r, packets)
	} else {
		first, asks, ok = qp.takeRequests(r, packets, now)
	}
	if !ok {
		return 0, 0, false
	}
	qp.cnpSent = false
	p, err := packet.Build(buf, opcode, qp.mtu)
	if err != nil {
		panic("softroce/transport: " + opcode.String() + ": " + err.Error())
	}
	bth := *p.BTH()
	bth.SetDestQPN(qp.attr.DestQPN)
	for i := range packets {
		bth.SetPSN(packet.NewPSN(uint32(first + int64(i))))
		bth.SetAckReq(asks && i == packets-1)
		*(*packet.BTH)(buf[i*size:]) = bth
	}
	return packets, size, answers
}

// requestsAlike returns how many of the requester's next packets are alike, and their opcode. It counts only packets that may
// leave now.
func (qp *QP) requestsAlike() (packet.Opcode, int64) {
	r := &qp.req
	if r.cur == r.tail || r.waiting || r.hold || r.mayRepair() || !qp.canSend() {
		return 0, 0
	}
	w := r.wqe(r.cur)
	if !w.started || w.failed != verbs.WCSuccess || w.answered() || w.wr.Flags&verbs.SendInline != 0 || r.nxt <= w.first {
		return 0, 0
	}
	n := min(w.end()-1-r.nxt, r.una+qp.mostInFlight()-r.nxt, qp.ackEvery()-int64(r.sinceAckReq))
	if qp.route != nil {
		if qp.route.is(silent) {
			return 0, 0
		}
		n = min(n, qp.flight.packets(qp.charge()))
	}
	return qp.transport.Request(w.wr.Opcode, packet.Middle), n
}

// takeRequests copies the payloads of the requester's next packets, and counts the packets as sent. asks reports whether the
// last one must ask for an ACK.
func (qp *QP) takeRequests(r run, packets int, now time.Duration) (first int64, asks, ok bool) {
	q := &qp.req
	w := q.wqe(q.cur)
	if !qp.gatherRun(r, packets, w.wr.SGL, int(q.nxt-w.first)*qp.mtu) {
		return 0, false, false
	}
	first = q.nxt
	q.nxt += int64(packets)
	q.max = max(q.max, q.nxt)
	asks = qp.asks(w, packets, int64(packets), false, now)
	qp.awaitAnswer(now)
	return first, asks, true
}

// responsesAlike returns how many of the next packets of a READ response are alike.
func (qp *QP) responsesAlike() int64 {
	s := qp.resp.oldestDue()
	if qp.requestsTurn || s.operation != packet.OpReadRequest || s.at == s.first || qp.isLong(s) {
		return 0
	}
	return int64((s.until - int(s.at-s.first)*qp.mtu - 1) / qp.mtu)
}

// takeResponses copies the payloads of the next packets of a READ response, and counts the packets as sent.
func (qp *QP) takeResponses(r run, packets int) (first int64, ok bool) {
	s := qp.resp.oldestDue()
	va := s.va + uint64(s.at-s.first)*uint64(qp.mtu)
	if !qp.touchRemote(s.rkey, va, packets*qp.mtu, verbs.AccessRemoteRead, func(src []byte) {
		r.parts(src, 0, func(payload, memory []byte) { move(payload, memory) })
	}) {
		return 0, false
	}
	first = s.at
	s.at += int64(packets)
	return first, true
}

// alike returns the length of the run at the beginning of a batch: middle packets of one message to a queue pair of RC, in order.
func alike(batch []Datagram) int {
	d := &batch[0]
	if len(d.Data) < len(packet.BTH{}) || d.TOS&ecnMask == ecnCongested {
		return 0
	}
	bth := (*packet.BTH)(d.Data)
	switch bth.Opcode() {
	case packet.RCSendMiddle, packet.RCWriteMiddle, packet.RCReadResponseMiddle:
	default:
		return 0
	}
	if bth.AckReq() {
		return 0
	}
	const ackReq = 1 << 31
	before, number := binary.BigEndian.Uint64(bth[:]), binary.BigEndian.Uint32(bth[8:])
	for n := 1; n < len(batch); n++ {
		next := &batch[n]
		if len(next.Data) != len(d.Data) || binary.BigEndian.Uint64(next.Data) != before ||
			next.Src != d.Src || next.Dst != d.Dst || next.TOS != d.TOS {
			return n
		}
		switch binary.BigEndian.Uint32(next.Data[8:]) {
		case number + uint32(n):
		case number + uint32(n) | ackReq:
			return n + 1
		default:
			return n
		}
	}
	return len(batch)
}

// receiveRun processes packets of a run, the first of which is p. It returns how many; the others go the common way.
func (qp *QP) receiveRun(now time.Duration, p packet.Packet, batch []Datagram) int {
	response := p.Opcode().IsResponse()
	if qp.kind != verbs.RC || !qp.canSend() && (response || qp.attr.State != qpstate.RTR) || qp.foreign(p, &batch[0]) ||
		!p.PayloadFits(qp.mtu) {
		return 0
	}
	header := p.Opcode().HeaderLen()
	r := run{qp.mtu, func(i int) []byte { return batch[i].Data[header:][:qp.mtu] }}
	if response {
		return qp.takeReadRun(now, p, r, len(batch))
	}
	n := qp.serveRun(p, r, len(batch))
	if n > 0 && (*packet.BTH)(batch[n-1].Data).AckReq() {
		qp.acknowledgeUpTo(qp.resp.expected - 1)
	}
	return n
}

// serveRun serves a run of the peer's requests, without the message's last packet.
func (qp *QP) serveRun(p packet.Packet, r run, packets int) int {
	rs := &qp.resp
	operation := p.Opcode().Operation()
	if rs.sequence(p) != rs.expected || rs.within != operation || len(rs.reorder.packets) > 0 {
		return 0
	}
	ok := false
	if operation == packet.OpSend {
		packets = min(packets, (int(rs.recv.length)-rs.off)/qp.mtu)
		ok = packets > 0 && qp.scatterRun(r, packets, qp.recvPD, rs.recv.sgl, rs.off)
	} else {
		packets = min(packets, (rs.total-rs.off-1)/qp.mtu)
		ok = packets > 0 && qp.writeRun(r, packets)
	}
	if !ok {
		return 0
	}
	rs.silent, rs.waitsRecv, rs.nakDue = false, false, false
	qp.establish()
	rs.off += packets * qp.mtu
	rs.expected += int64(packets)
	qp.awaitNoReply()
	return packets
}

// writeRun copies the payloads of packets to the region that the WRITE's first packet named.
func (qp *QP) writeRun(r run, packets int) bool {
	rs := &qp.resp
	return qp.touchRemote(rs.rkey, rs.va+uint64(rs.off), packets*qp.mtu, verbs.AccessRemoteWrite, func(dst []byte) {
		r.parts(dst, 0, func(payload, memory []byte) { move(memory, payload) })
	})
}

// takeReadRun stores a run of READ responses, without the last packet of what was asked for.
func (qp *QP) takeReadRun(now time.Duration, p packet.Packet, r run, packets int) int {
	q := &qp.req
	before := q.una
	if p.BTH().PSN() != packet.NewPSN(uint32(before)) || q.arrivals > 0 || !qp.sending() {
		return 0
	}
	w := q.wqe(q.head)
	if w.wr.Opcode != verbs.OpRDMARead || w.failed != verbs.WCSuccess {
		return 0
	}
	packets = min(packets, int(qp.chunkEnd(w, before)-1-before), int(q.nxt-1-before))
	if packets < 1 || !qp.scatterRun(r, packets, qp.pd, w.wr.SGL, int(before-w.first)*qp.mtu) {
		return 0
	}
	q.una += int64(packets)
	qp.progress(now, before)
	return packets
}
