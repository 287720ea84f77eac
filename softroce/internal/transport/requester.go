// The requester: the send queue and its packets.
//
//  1. PostSend puts work requests into a ring (post.go).
//  2. nextRequest starts a work request when its turn comes, and numbers its packets. Packet
//     numbers are kept as 64-bit counts; the PSN on the wire is the low 24 bits.
//  3. The packets from una to nxt are in flight: sent and not acknowledged. una lies in the
//     oldest work request. To send again, set nxt = una.
//  4. Acknowledgements move una (requester_acks.go). The oldest work requests complete when
//     una has passed their last packet.
//
// READ, atomics, ATOMIC WRITE and FLUSH are acknowledged only by their own response. The
// responses of ATOMIC WRITE and FLUSH carry no data.
//
// Everything here runs with the queue pair's lock held.

package transport

import (
	"slices"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// sendWQE is a send work request in the queue.
type sendWQE struct {
	wr      verbs.SendWR // its SGL is in memory of the ring
	inline  []byte       // the data of a request with SendInline
	path    *Path        // UD only
	route   *route       // UD only; may be nil
	length  int
	started bool
	failed  verbs.WCStatus // why the request failed; it completes when it is the oldest
	first   int64          // number of its first packet
	packets int64          // number of packets; for a READ, of the response
	// readsBefore is the number of READ response packets of all requests before.
	readsBefore int64
}

func (w *sendWQE) end() int64 { return w.first + w.packets }

// answered reports whether only its own response acknowledges the request.
func (w *sendWQE) answered() bool { return packet.HasResponse(w.wr.Opcode) }

// fetches reports whether the response brings data for the request's SGL.
func (w *sendWQE) fetches() bool {
	return w.answered() && w.wr.Opcode != verbs.OpAtomicWrite && w.wr.Opcode != verbs.OpFlush
}

type requester struct {
	wqes              []sendWQE // a ring, indexed by head <= cur <= tail
	bindings          []binding // binds of the wqes that have one; nil until the first bind
	head, cur, tail   uint64    // requests: the oldest, the one being sent, one past the newest
	una, nxt, max     int64     // packets: oldest unacknowledged, next to send, one past all ever sent
	untaken           int64     // packets from here on wait for room (outlet.go); allTaken: none
	answersDue        int       // answered requests that were sent since una and have no response yet
	readPackets       int64     // READ response packets of all started requests
	answeredStarted   int       // answered requests that are started and not complete
	sinceAckReq       int
	retries           uint8 // left before RETRY_EXC_ERR
	rnrRetries        uint8
	starvedTimeouts   uint8 // ACK timeouts since una has moved that did not count
	grown             uint8 // how far the ACK timeout has grown, as a power of two
	wentBack          int64 // value of una at the last goBackOnce
	waiting           bool  // until deadline: the RNR timer that the peer asked for, or a pause while it has no room (ud.go)
	deadline          time.Duration
	asking            bool // packets were in flight since the deadline was set; otherwise it began in line
	draining          bool // in SQD with requests in flight
	notifyWhenDrained bool
	recovery
}

func (r *requester) init(c verbs.QPCap) {
	r.wqes = make([]sendWQE, c.MaxSendWR)
	lists := make([]verbs.SGE, c.MaxSendWR*c.MaxSendSGE)
	inline := make([]byte, c.MaxSendWR*c.MaxInlineData)
	for i := range r.wqes {
		w := &r.wqes[i]
		w.wr.SGL, lists = lists[:0:c.MaxSendSGE], lists[c.MaxSendSGE:]
		w.inline, inline = inline[:0:c.MaxInlineData], inline[c.MaxInlineData:]
	}
}

func (r *requester) reset() {
	for i := r.head; i != r.tail; i++ {
		r.forgetBind(i)
	}
	*r = requester{wqes: r.wqes, bindings: r.bindings, deadline: never, wentBack: nowhere, untaken: allTaken}
	r.recovery.reset()
}

// nowhere is a packet number that no packet has.
const nowhere = -1 << 62

func (r *requester) wqe(i uint64) *sendWQE { return &r.wqes[i%uint64(len(r.wqes))] }

// begin sets the number of the first packet to psn.
func (r *requester) begin(psn uint32) {
	r.una = int64(packet.NewPSN(psn))
	r.nxt, r.max = r.una, r.una
}

// nextRequest chooses the requester's next packet, the first of a burst or another one. It starts
// work requests when their turn comes, and executes those that send no packet.
func (qp *QP) nextRequest(now time.Duration, first bool) (o outgoing, ok bool) {
	r := &qp.req
	if r.mayRepair() && !r.waiting && qp.canSend() {
		if o, ok = qp.repairing(); ok {
			return o, true
		}
	}
	for r.cur != r.tail && !r.waiting && !r.hold && qp.canSend() {
		w := r.wqe(r.cur)
		if !w.started {
			if !qp.start(w) {
				return qp.askLate()
			}
			continue // the request may be complete already; then w is another request
		}
		if w.failed != verbs.WCSuccess {
			return qp.askLate() // it fails when all requests before it are complete
		}
		if r.nxt >= w.end() {
			r.cur++
			continue
		}
		if qp.kind == verbs.RC && (r.nxt-r.una >= qp.mostInFlight() || qp.waits(now, w)) {
			return qp.askLate()
		}
		if w.answered() && r.answersDue >= int(qp.attr.MaxRdAtomic) {
			return o, false
		}
		o = qp.requestPacket(w, r.nxt)
		if qp.kind != verbs.RC && (qp.waitsFor(now, qp.routeOf(w)) || first && qp.waitForRoom(now, w, o.path)) {
			return o, false
		}
		return o, true
	}
	return o, false
}

// routeOf returns the route of a request; nil if it has none.
func (qp *QP) routeOf(w *sendWQE) *route {
	if w.route != nil {
		return w.route
	}
	return qp.route
}

// start numbers the packets of a work request. It returns false if the request must wait or
// has failed. A failed request completes when it is the oldest.
func (qp *QP) start(w *sendWQE) bool {
	r := &qp.req
	if qp.attr.State == qpstate.SQD || w.wr.Flags&verbs.SendFence != 0 && r.answeredStarted > 0 {
		return false
	}
	w.started, w.first, w.packets = true, r.nxt, packetsFor(w.length, qp.mtu)
	need := verbs.Access(0)
	switch {
	case w.wr.Opcode == verbs.OpLocalInv:
		w.packets = 0
		if !qp.invalidate(w.wr.InvalidateRKey) {
			w.failed = verbs.WCMWBindErr // libibverbs' code of Memory Management Operation Error: 11.6.2
		}
	case w.wr.Opcode == verbs.OpBindMW:
		w.packets = 0
		b := &r.bindings[r.cur%uint64(len(r.wqes))]
		if !qp.bind(b) {
			w.failed = verbs.WCMWBindErr
		}
		*b = binding{}
	case w.answered():
		if w.fetches() {
			need = verbs.AccessLocalWrite
		}
		if qp.attr.MaxRdAtomic == 0 {
			w.failed = verbs.WCLocQPOpErr
		} else if w.wr.Opcode != verbs.OpRDMARead && w.fetches() && sglLength(w.wr.SGL) != atomicLen {
			w.failed = verbs.WCLocLenErr // 11.6.2
		}
		r.answeredStarted++
	case qp.kind == verbs.UD && w.length > qp.mtu:
		w.packets = 0 // completes without sending anything: C10-93.1.1
	}
	if w.wr.Flags&verbs.SendInline == 0 && !qp.sglAllowed(w.wr.SGL, need) {
		w.failed = verbs.WCLocProtErr
	}
	if w.failed != verbs.WCSuccess {
		w.packets = 0
	}
	if w.readsBefore = r.readPackets; w.wr.Opcode == verbs.OpRDMARead {
		r.readPackets += w.packets
	}
	qp.retire()
	return w.failed == verbs.WCSuccess
}

func packetsFor(length, mtu int) int64 { return max(1, int64((length+mtu-1)/mtu)) }

// requestPacket describes packet seq, which is one of w's.
func (qp *QP) requestPacket(w *sendWQE, seq int64) outgoing {
	path := qp.path
	if qp.kind == verbs.UD {
		path = w.path
	}
	place, size := packet.Only, 0
	if !w.fetches() {
		off := int(seq-w.first) * qp.mtu
		place, size = packet.PlaceOf(off == 0, seq+1 == w.end()), min(qp.mtu, w.length-off)
	}
	return outgoing{opcode: qp.transport.Request(w.wr.Opcode, place), payload: size, path: path}
}

// buildRequest fills in p, the packet r.nxt of the request being sent, or a packet again. It
// returns false if the payload cannot be read.
func (qp *QP) buildRequest(p packet.Packet, now time.Duration, o *outgoing) bool {
	r := &qp.req
	w, seq := r.wqe(r.cur), r.nxt
	if o.again {
		w, seq = r.wqe(o.wqe), o.from
	}
	index := int(seq - w.first)
	bth := p.BTH()
	bth.SetPSN(packet.NewPSN(uint32(seq)))
	bth.SetDestQPN(qp.attr.DestQPN)
	count := int64(1) // packet numbers used by p
	last := seq+1 == w.end()

	if w.wr.Opcode == verbs.OpRDMARead {
		end := qp.chunkEnd(w, seq)
		if o.again {
			end = o.to
		}
		count = end - seq
		off := index * qp.mtu
		p.RETH().Set(w.wr.RemoteAddr+uint64(off), w.wr.RKey, uint32(min(w.length-off, int(count)*qp.mtu)))
		last = true
	} else if a := p.AtomicETH(); a != nil {
		swapAdd, compare := w.wr.CompareAdd, uint64(0)
		if w.wr.Opcode == verbs.OpAtomicCmpAndSwp {
			swapAdd, compare = w.wr.Swap, w.wr.CompareAdd
		}
		a.Set(w.wr.RemoteAddr, w.wr.RKey, swapAdd, compare)
	} else {
		if !qp.snapshot(p.Payload(), w, index*qp.mtu) {
			w.failed = verbs.WCLocProtErr
			qp.retire()
			return false
		}
		if h := p.RETH(); h != nil {
			h.Set(w.wr.RemoteAddr, w.wr.RKey, uint32(w.length))
			if f := p.FETH(); f != nil {
				h.Set(w.wr.RemoteAddr, w.wr.RKey, w.wr.Flush.Length)
				f.Set(w.wr.Flush.Type, w.wr.Flush.Level)
			}
		}
		if h := p.ImmDt(); h != nil {
			h.Set(w.wr.Imm)
		}
		if h := p.IETH(); h != nil {
			h.Set(w.wr.InvalidateRKey)
		}
		if h := p.DETH(); h != nil {
			bth.SetDestQPN(w.wr.RemoteQPN)
			qkey := w.wr.RemoteQKey
			if qkey&ownQKey != 0 {
				qkey = qp.attr.QKey
			}
			h.Set(qkey, qp.qpn)
		}
		bth.SetSolicited(last && w.wr.Flags&verbs.SendSolicited != 0)
	}
	if o.again {
		bth.SetAckReq(true)
		qp.repaired(now, o)
		return true
	}
	r.nxt += count
	r.max = max(r.max, r.nxt)
	if qp.kind != verbs.RC {
		qp.paced.built(len(p.Bytes()))
		r.una = r.nxt
		qp.retire()
		return true
	}
	if w.answered() {
		r.answersDue++
	}
	if index == 0 {
		qp.replied(now)
	}
	bth.SetAckReq(qp.asks(w, 1, count, last && qp.needsAck(w), now))
	qp.awaitAnswer(now)
	return true
}

// needsAck reports whether the last packet of the request that is being sent must ask for an ACK. If ACKs may be few, it need
// not if nobody waits for its completion, and another request follows that will ask.
func (qp *QP) needsAck(w *sendWQE) bool {
	r := &qp.req
	if !qp.mayAskLess() || qp.attr.State == qpstate.SQD || qp.sigAll || w.wr.Flags&verbs.SendSignaled != 0 || w.answered() || r.cur+1 == r.tail {
		return true
	}
	next := r.wqe(r.cur + 1)
	return next.wr.Opcode == verbs.OpLocalInv || next.wr.Opcode == verbs.OpBindMW
}

// mayAskLess reports whether ACKs may be few: within a host. Through a network, senders with fewer ACKs take less equal shares
// (make simulate).
func (qp *QP) mayAskLess() bool { return qp.path.Joined }

// askLate returns a probe if the last packet did not ask for an ACK, and nothing that asks can follow now.
func (qp *QP) askLate() (o outgoing, ok bool) {
	r := &qp.req
	if r.sinceAckReq == 0 || r.una >= r.nxt || !qp.canSend() || !qp.mayAskLess() {
		return o, false
	}
	r.sinceAckReq = 0
	qp.sendProbe()
	return qp.repairing()
}

// asks charges packets that were just built, with count numbers, and returns whether the last of them must ask for an ACK. must
// reports whether it must in any case.
func (qp *QP) asks(w *sendWQE, packets int, count int64, must bool, now time.Duration) bool {
	r := &qp.req
	r.sinceAckReq += packets
	if !qp.spend(w, count) && !must && r.sinceAckReq < int(qp.ackEvery()) && r.nxt-r.una < qp.mostInFlight() {
		return false
	}
	r.sinceAckReq = 0
	r.time(r.nxt-count, now)
	return true
}

// awaitAnswer begins the wait for an answer to a packet that was just built, if none has begun.
func (qp *QP) awaitAnswer(now time.Duration) {
	r := &qp.req
	if r.deadline == never || !r.asking {
		if !r.asking && !qp.unproven() {
			r.retries, r.grown = qp.attr.RetryCnt, 0 // the timeouts in line were before the peer's first answer
		}
		qp.setDeadline(now)
	}
	if r.tailProbe == never {
		qp.setTailProbe(now)
	}
}

// snapshot copies the payload of a packet. The program may change its memory at any time, and
// the ICRC must match the bytes that are sent.
func (qp *QP) snapshot(dst []byte, w *sendWQE, off int) bool {
	if w.wr.Flags&verbs.SendInline != 0 {
		copy(dst, w.inline[off:])
		return true
	}
	return qp.gather(dst, w.wr.SGL, off)
}

// hasUnsent reports whether the queue pair has not sent yet all that its requests carry of the region with this key.
func (qp *QP) hasUnsent(key uint32) bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	r := &qp.req
	for i := r.cur; i != r.tail && qp.canSend(); i++ {
		w := r.wqe(i)
		sent := w.started && r.nxt >= w.end()
		if !sent && !w.fetches() && w.wr.Flags&verbs.SendInline == 0 && slices.ContainsFunc(w.wr.SGL, func(s verbs.SGE) bool { return s.LKey == key }) {
			return true
		}
	}
	return false
}

// chunkEnd returns the end of the READ request that packet seq belongs to. Large READs are
// split at multiples of ReadChunk.
func (qp *QP) chunkEnd(w *sendWQE, seq int64) int64 {
	chunk := int64(qp.engine.cfg.ReadChunk)
	return min(w.first+((seq-w.first)/chunk+1)*chunk, w.end())
}

// retire completes the oldest work requests that are done.
func (qp *QP) retire() {
	r := &qp.req
	for r.head != r.tail {
		w := r.wqe(r.head)
		if w.failed != verbs.WCSuccess {
			qp.failHead(w.failed)
			return
		}
		if !w.started || w.end() > r.una {
			break
		}
		if w.answered() {
			r.answeredStarted--
		}
		r.head++
		r.cur = max(r.cur, r.head)
		qp.wake = qp.wake || r.cur != r.tail // a fenced request may start now
		if (qp.sigAll || w.wr.Flags&verbs.SendSignaled != 0) && !qp.completeSend(w, verbs.WCSuccess) {
			qp.overrun()
			return
		}
	}
	if r.draining && !qp.sending() {
		r.draining = false
		if r.notifyWhenDrained {
			qp.event(verbs.EventSQDrained)
		}
	}
}

// sending reports whether a work request has been started and is not complete.
func (qp *QP) sending() bool {
	r := &qp.req
	return r.head != r.tail && r.wqe(r.head).started
}

// failHead completes the oldest work request with an error and stops the send queue. RC goes
// to ERR. UC and UD go to SQE, where receives still work.
func (qp *QP) failHead(status verbs.WCStatus) {
	r := &qp.req
	w := r.wqe(r.head)
	r.head++
	if !qp.completeSend(w, status) {
		qp.overrun()
		return
	}
	if qp.kind == verbs.RC {
		qp.fail(refusal{})
		return
	}
	qp.attr.State = qpstate.SQE
	qp.flushSends()
}

// flushSends completes all remaining work requests of the send queue as flushed.
func (qp *QP) flushSends() {
	r := &qp.req
	for r.head != r.tail {
		w := r.wqe(r.head)
		r.forgetBind(r.head)
		r.head++
		qp.completeSend(w, verbs.WCWRFlushErr)
	}
	if qp.route != nil {
		qp.flight.stop()
		qp.reads.stop()
	}
	qp.paced.leave()
	r.cur, r.nxt, r.una = r.head, r.max, r.max
	r.answersDue, r.answeredStarted = 0, 0
	r.waiting, r.draining, r.deadline, r.tailProbe = false, false, never, never
	r.forgetRecovery()
}

var sendWCOpcodes = [...]verbs.WCOpcode{
	verbs.OpRDMAWrite:          verbs.WCRDMAWrite,
	verbs.OpRDMAWriteWithImm:   verbs.WCRDMAWrite,
	verbs.OpSend:               verbs.WCSend,
	verbs.OpSendWithImm:        verbs.WCSend,
	verbs.OpRDMARead:           verbs.WCRDMARead,
	verbs.OpAtomicCmpAndSwp:    verbs.WCCompSwap,
	verbs.OpAtomicFetchAndAdd:  verbs.WCFetchAdd,
	verbs.OpLocalInv:           verbs.WCLocalInv,
	verbs.OpBindMW:             verbs.WCBindMW,
	verbs.OpSendWithInvalidate: verbs.WCSend,
	verbs.OpFlush:              verbs.WCFlush,
	verbs.OpAtomicWrite:        verbs.WCAtomicWrite,
}

func (qp *QP) completeSend(w *sendWQE, status verbs.WCStatus) bool {
	wc := verbs.WC{ID: w.wr.ID, Status: status, Opcode: sendWCOpcodes[w.wr.Opcode], QPN: qp.qpn}
	if w.fetches() {
		wc.ByteLen = uint32(w.length)
	}
	return qp.sendCQ.push(&wc, false)
}
