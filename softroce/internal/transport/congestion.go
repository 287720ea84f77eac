// Congestion notification: a switch marks packets (ECN), the receiving side tells the sending side with
// a CNP, and the sending side shrinks its route's window (controller.go), and its rate (paced.go) for UC, UD and READ responses.
//
// Marks on READ responses shrink this side's window too, because it decides how much the peer sends.
// Everything here runs with the queue pair's lock held.

package transport

import (
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// Values of the two low bits of the type of service.
const (
	ecnMask      = 3
	ecnCapable   = 2 // the first of two such values: a switch may mark the packet
	ecnCongested = 3 // CE: a switch has marked the packet
)

const (
	// cnpPause is the shortest time between two CNPs of a queue pair; of UD: to one address.
	cnpPause   = 50 * time.Microsecond
	cnpPayload = 16
)

// capable returns p with packets that switches may mark if the sender obeys marks, and only then. The program may
// have copied the traffic class from a marked packet; its answer must not begin with a mark.
func capable(p *Path) *Path {
	if p == nil {
		return nil
	}
	ecn := p.TrafficClass & ecnMask
	switch obeys := p.Flight > 0 && !p.Dst.IsMulticast(); {
	case !obeys:
		ecn = 0
	case ecn == 0, ecn == ecnCongested:
		ecn = ecnCapable
	}
	if ecn == p.TrafficClass&ecnMask {
		return p
	}
	c := *p
	c.TrafficClass = c.TrafficClass&^ecnMask | ecn
	return &c
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

// notified obeys a CNP. A CNP for a queue pair of UD slows only the packets to the address that it came from.
func (qp *QP) notified(now time.Duration, d *Datagram) {
	switch qp.kind {
	case verbs.RC, verbs.UC:
		if qp.congested(now); qp.route != nil {
			qp.route.pacer.congested(now)
		}
	default:
		if r := qp.engine.routes.find(d.Dst, d.Src); r != nil {
			r.pacer.congested(now)
		}
	}
}

// congested obeys a CNP, or a mark on a READ response.
func (qp *QP) congested(now time.Duration) {
	if r := qp.route; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.controller.congested(now, qp.req.trip.mean, leastWindow*int64(qp.mtu))
		r.adjust()
	}
}

// markTable has the senders of marked datagrams to one queue pair: a CNP goes to each.
type markTable [32]marker

type marker struct {
	path *Path // to the sender; nil: unused
	qpn  uint32
	due  bool
	next time.Duration // no CNP is sent before
}

func (m *marker) matches(d *Datagram) bool {
	return m.path != nil && m.path.Dst == d.Src && m.path.Src == d.Dst
}

// of returns the entry of a datagram's sender, or one that it may have, or nil.
func (t *markTable) of(now time.Duration, d *Datagram) (free *marker) {
	for i := range t {
		switch m := &t[i]; {
		case m.matches(d):
			return m
		case free == nil && !m.due && now >= m.next:
			free = m
		}
	}
	return free
}

// markedDatagram notes that a datagram with a mark arrived. If the table is full, its sender gets no CNP; it
// gets one soon, because an entry is free again after cnpPause.
func (qp *QP) markedDatagram(now time.Duration, d *Datagram, sender uint32) {
	e := qp.engine
	e.counters.add(CongestionMarks, 1)
	if e.cfg.Reply == nil || d.Dst.IsMulticast() || d.Src.IsMulticast() {
		return
	}
	if qp.marks == nil {
		qp.marks = new(markTable)
	}
	m := qp.marks.of(now, d)
	if m == nil || m.due || now < m.next {
		return
	}
	if !m.matches(d) {
		if m.path = e.cfg.Reply(d.Dst, d.Src); m.path == nil {
			return
		}
	}
	m.qpn, m.due, m.next = sender, true, now+cnpPause
	qp.cnpDue, qp.wake = true, true
}

// nextCNP returns the CNP to send next.
func (qp *QP) nextCNP() outgoing {
	o := outgoing{opcode: packet.CongestionNotification, payload: cnpPayload, path: qp.path, cnp: true, cnpTo: qp.attr.DestQPN}
	if m := qp.nextMarker(); m != nil {
		o.path, o.cnpTo = m.path, m.qpn
	}
	return o
}

// nextMarker returns the first sender of datagrams to which a CNP is due, or nil.
func (qp *QP) nextMarker() *marker {
	if qp.marks == nil {
		return nil
	}
	for i := range qp.marks {
		if m := &qp.marks[i]; m.due {
			return m
		}
	}
	return nil
}

// buildCNP fills in p, the CNP that nextCNP returned.
func (qp *QP) buildCNP(p packet.Packet, to uint32) {
	clear(p.Payload())
	p.BTH().SetDestQPN(to)
	p.BTH().SetBECN(true)
	qp.cnpDue = false
	if m := qp.nextMarker(); m != nil {
		m.due = false
		qp.cnpDue = qp.nextMarker() != nil
	}
	qp.engine.counters.add(CongestionNotesSent, 1)
}
