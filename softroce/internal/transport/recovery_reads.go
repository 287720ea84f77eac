// READ responses that come ahead of a lost one. The requester stores them, and asks again for those
// that are missing.
//
// It asks for all missing packets of one READ request at once, from the first to the last, as soon
// as a later answer shows that no more of them will come. If it must ask once more, it begins at
// the first that is still missing. So it never asks for an earlier packet than the last time;
// rdma_rxe does not answer that.
//
// Everything here runs with the queue pair's lock held.

package transport

import (
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// reads is what the requester knows of READ responses behind a lost one.
type reads struct {
	arrived  [reorderReach / 64]uint64 // one bit per number
	arrivals int                       // number of bits set
	asked    int64                     // the missing responses before it were asked for again
	askTo    int64                     // the missing responses before it are lost
}

func (v *reads) reset() {
	if v.arrivals > 0 {
		v.arrived, v.arrivals = [reorderReach / 64]uint64{}, 0
	}
	v.asked, v.askTo = nowhere, nowhere
}

// bufferResponse stores READ response packet seq, which came ahead of a lost one.
func (qp *QP) bufferResponse(now time.Duration, seq int64, p packet.Packet) {
	r := &qp.req
	if seq == r.timed {
		r.trip.add(now - r.timedAt)
		r.timed = nowhere
	}
	if !qp.recovers() || seq >= r.nxt || seq-r.una >= reorderReach || p.Opcode().Operation() != packet.OpReadResponse {
		return
	}
	for i := r.head; i != r.tail; i++ {
		w := r.wqe(i)
		if !w.started || w.first > seq {
			return
		}
		if seq >= w.end() {
			continue
		}
		off := int(seq-w.first) * qp.mtu
		if w.wr.Opcode == verbs.OpRDMARead && w.failed == verbs.WCSuccess && len(p.Payload()) == min(qp.mtu, w.length-off) &&
			!r.hasArrived(seq) && qp.scatter(qp.pd, w.wr.SGL, off, p.Payload()) {
			r.arrived[seq%reorderReach/64] |= 1 << (seq % 64)
			r.arrivals++
			qp.engine.counters.add(Kept, 1)
			if end := qp.chunkEnd(w, seq); seq+1 == end {
				qp.askBefore(end)
			}
		}
		return
	}
}

func (v *reads) hasArrived(seq int64) bool {
	return v.arrivals > 0 && v.arrived[seq%reorderReach/64]&(1<<(seq%64)) != 0
}

// chunkOf returns the first packet and the end of the READ request that packet seq belongs to. Both
// are seq if it does not belong to a READ.
func (qp *QP) chunkOf(seq int64) (first, end int64) {
	r := &qp.req
	for i := r.head; i != r.tail; i++ {
		w := r.wqe(i)
		if w.started && w.wr.Opcode == verbs.OpRDMARead && w.first <= seq && seq < w.end() {
			return seq - (seq-w.first)%int64(qp.engine.cfg.ReadChunk), qp.chunkEnd(w, seq)
		}
	}
	return seq, seq
}

// passArrived moves una past the READ responses that had come ahead. They acknowledge the requests
// before them, too.
func (qp *QP) passArrived() {
	r := &qp.req
	for r.arrivals > 0 && qp.canSend() {
		w := r.wqe(r.head)
		switch {
		case !w.answered():
			r.una = w.end()
			qp.retire()
		case r.hasArrived(r.una):
			qp.passAnswer(w, r.una, qp.chunkEnd(w, r.una))
		default:
			return
		}
	}
}

// askBefore notes that the missing READ responses before seq are lost.
func (qp *QP) askBefore(seq int64) {
	r := &qp.req
	if seq > r.askTo && seq > r.una {
		r.askTo = seq
		qp.wake = true
	}
}

// askNext returns the request for lost READ responses that were not asked for again.
func (qp *QP) askNext() (o outgoing, ok bool) {
	r := &qp.req
	for i := r.head; i != r.tail && r.asked < r.askTo; i++ {
		w := r.wqe(i)
		if !w.started || w.first >= r.askTo {
			break
		}
		if w.wr.Opcode != verbs.OpRDMARead {
			continue
		}
		for at := max(w.first, r.una, r.asked); at < min(w.end(), r.askTo, r.nxt); {
			end := qp.chunkEnd(w, at)
			last := min(end, r.askTo)
			for at < last && r.hasArrived(at) {
				at++
			}
			if at < last {
				o = qp.requestPacket(w, at)
				o.again, o.wqe, o.from, o.to = true, i, at, qp.lastMissing(at, last)
				return o, true
			}
			at, r.asked = end, end
		}
	}
	r.asked = max(r.asked, r.askTo)
	return o, false
}

// lastMissing returns the end of the missing responses from from on and before to.
func (qp *QP) lastMissing(from, to int64) int64 {
	for to > from && qp.req.hasArrived(to-1) {
		to--
	}
	return to
}
