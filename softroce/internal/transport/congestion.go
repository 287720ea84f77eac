// Congestion notification: a switch marks packets of a queue pair of RC (ECN), the receiving side tells
// the sending side with a CNP, and the sending side shrinks its route's window (law.go).
//
// Marks on READ responses shrink this side's window too, because it decides how much the peer sends.
// Everything here runs with the queue pair's lock held.

package transport

import (
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Values of the two low bits of the type of service.
const (
	ecnMask      = 3
	ecnCapable   = 2 // the first of two such values: a switch may mark the packet
	ecnCongested = 3 // CE: a switch has marked the packet
)

const (
	// cnpPause is the shortest time between two CNPs of a queue pair.
	cnpPause   = 50 * time.Microsecond
	cnpPayload = 16
)

// capable returns p with packets that switches may mark, if the queue pair obeys marks.
func capable(p *Path) *Path {
	if p == nil || p.Flight == 0 || p.TrafficClass&ecnMask != 0 {
		return p
	}
	marked := *p
	marked.TrafficClass |= ecnCapable
	return &marked
}

// marked notes that a packet with a mark arrived. A marked ACK says nothing of the way to the peer.
func (qp *QP) marked(now time.Duration, readResponse bool) {
	qp.engine.counters.add(CongestionMarks, 1)
	if readResponse {
		qp.congested(now)
	}
	if qp.route != nil && now >= qp.cnpNext {
		qp.cnpDue, qp.cnpNext, qp.wake = true, now+cnpPause, true
	}
}

// congested obeys a CNP, or a mark on a READ response.
func (qp *QP) congested(now time.Duration) {
	if r := qp.route; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.law.congested(now, qp.req.trip.mean, int64(qp.mtu))
		r.window.Store(r.law.window)
	}
}

// buildCNP fills in p, a CNP.
func (qp *QP) buildCNP(p packet.Packet) {
	clear(p.Payload())
	p.BTH().SetDestQPN(qp.attr.DestQPN)
	p.BTH().SetBECN(true)
	qp.cnpDue = false
	qp.engine.counters.add(CongestionNotesSent, 1)
}
