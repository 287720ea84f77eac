// Inspecting: copies of what a queue pair, a CQ and an SRQ hold at one moment. The simulated
// devices of softroce/simulated show them. Nothing on the way of a packet calls this file.

package transport

import (
	"slices"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// QPView is the inside of a queue pair. Packet numbers are counts of 64 bits, of which the low
// 24 are the PSN.
type QPView struct {
	Attr qpstate.Attr

	// The requester.
	Sends          []SendView    // the oldest first
	Una, Next, Max int64         // the oldest unacknowledged packet, the next to send, one past all ever sent
	Window         int64         // how many packets may be in flight; RC only
	Retries        uint8         // resends left before RETRY_EXC_ERR
	RNRRetries     uint8         // resends left before RNR_RETRY_EXC_ERR
	WaitsRNR       bool          // the requester waits for as long as an RNR NAK asked; UC and UD: for its rate or the peer's room
	Deadline       time.Duration // when that wait or the ACK timeout ends; valid if HasDeadline
	HasDeadline    bool
	TailProbe      time.Duration // when the next tail-loss probe is due; the largest Duration: none is
	AnswersAwaited int           // READs, atomics, ATOMIC WRITEs and FLUSHes sent and not answered

	// The responder.
	Recvs       []RecvView // receives posted to the queue pair itself, the oldest first
	Taken       *RecvView  // the receive that an unfinished message fills; nil: none
	Expected    int64      // the packet that is served next
	MSN         uint32     // messages served, modulo 2²⁴
	AnswersOwed int        // READs, atomics, ATOMIC WRITEs and FLUSHes with a response still to be sent
	Silent      bool       // a NAK was sent for Expected; no other is sent until that packet arrives
}

// SendView is a work request in a send queue.
type SendView struct {
	WR             verbs.SendWR
	Length         int
	Started        bool
	First, Packets int64          // valid if Started
	Failed         verbs.WCStatus // why it will complete with an error; WCSuccess: it has not failed
}

// RecvView is a posted receive.
type RecvView struct {
	ID  uint64
	SGL []verbs.SGE
}

// Inspect returns a copy of the queue pair's inside.
func (qp *QP) Inspect() QPView {
	attr := qp.Query()
	qp.mu.Lock()
	defer qp.mu.Unlock()
	r, rs := &qp.req, &qp.resp
	v := QPView{
		Attr: attr, Una: r.una, Next: r.nxt, Max: r.max, Retries: r.retries, RNRRetries: r.rnrRetries,
		WaitsRNR: r.waiting, Deadline: r.deadline, HasDeadline: r.deadline != never, TailProbe: r.tailProbe, AnswersAwaited: r.answersDue,
		Recvs: qp.rq.inspect(), Expected: rs.expected, MSN: rs.msn & 0xffffff, AnswersOwed: rs.due, Silent: rs.silent,
	}
	if qp.route != nil {
		charge := qp.charge()
		v.Window = min(qp.mostInFlight(), (qp.route.window.Load()+charge-1)/charge) // the last may exceed it: see flow.maySend
	}
	for i := r.head; i != r.tail; i++ {
		w := r.wqe(i)
		s := SendView{WR: w.wr, Length: w.length, Started: w.started, First: w.first, Packets: w.packets, Failed: w.failed}
		s.WR.SGL = slices.Clone(w.wr.SGL)
		v.Sends = append(v.Sends, s)
	}
	if rs.haveRecv {
		v.Taken = &RecvView{rs.recv.id, slices.Clone(rs.recv.sgl)}
	}
	return v
}

// Timer returns when the queue pair's next timer ends, and false if none runs. Unlike the
// engine's Deadline it is never too early.
func (qp *QP) Timer() (at time.Duration, running bool) {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	at = min(qp.req.deadline, qp.req.tailProbe, qp.resp.waits, qp.paced.resumes)
	return at, at != never
}

func (q *recvQueue) inspect() (list []RecvView) {
	for i := range q.count {
		w := &q.wqes[(q.head+i)%uint32(len(q.wqes))]
		list = append(list, RecvView{w.id, slices.Clone(w.sgl)})
	}
	return list
}

// Inspect returns the receives in the queue, the oldest first.
func (s *SRQ) Inspect() []RecvView {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.inspect()
}

// CQView is the inside of a completion queue.
type CQView struct {
	Completions []verbs.WC // the oldest first
	Armed       string     // "", "solicited" or "any"
	Overrun     bool       // a completion was lost
}

// Inspect returns a copy of the CQ's inside.
func (cq *CQ) Inspect() CQView {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	v := CQView{Armed: [...]string{unarmed: "", armedSolicited: "solicited", armedAny: "any"}[cq.armed], Overrun: cq.overrun}
	head, count := cq.waitingCompletions()
	for i := range count {
		v.Completions = append(v.Completions, cq.ring.WCs[cq.ring.place(head+i)])
	}
	return v
}

// Ready reports whether a queue pair is on the ready list, so that Transmit may return bursts.
func (e *Engine) Ready() bool {
	e.ready.mu.Lock()
	defer e.ready.mu.Unlock()
	return e.ready.first != nil
}

// Sender returns the queue pair that filled the first burst of o, after a Transmit that returned
// bursts.
func (o *Outbox) Sender() *QP { return o.held[0].qp }

// MWView is the inside of a memory window.
type MWView struct {
	Bound  bool
	Addr   uint64
	Length int
	Access verbs.Access
}

// Inspect returns what the window opens.
func (mw *MW) Inspect() MWView {
	mw.mu.Lock()
	defer mw.mu.Unlock()
	if mw.region == nil {
		return MWView{}
	}
	return MWView{Bound: true, Addr: mw.opens.Addr(), Length: len(mw.opens.buf), Access: mw.opens.access}
}
