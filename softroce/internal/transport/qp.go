// Queue pairs: their states, and what the requester and the responder share.
//
// receive checks a packet and passes it to the requester or the responder. next and build make
// the next packet to send. All of this runs with mu held; unlock passes the consequences to the
// engine.

package transport

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// QPInit describes a queue pair to create.
type QPInit struct {
	Type           verbs.QPType
	SendCQ, RecvCQ *CQ
	SRQ            *SRQ // nil: the queue pair has its own receive queue
	Cap            verbs.QPCap
	SigAll         bool // every send completes; otherwise only those with SendSignaled

	Vector, Vectors int // the queue pair's number is Vector modulo Vectors; any number if both are 0
}

// QP is a queue pair: RC, UC or UD.
type QP struct {
	User any // free for the caller's use

	engine         *Engine
	pd             *PD
	qpn            uint32
	kind           verbs.QPType
	transport      packet.Transport
	sendCQ, recvCQ *CQ
	srq            *SRQ
	recvPD         *PD          // domain of the receives' memory: the SRQ's, or pd
	groups         atomic.Int32 // number of multicast groups
	cap            verbs.QPCap
	sigAll         bool

	ready      readyState // guarded by the ready list's lock
	alarmIndex int        // guarded by the timers' lock
	flight     flow       // of the route: the bytes in flight
	reads      flow       // of the read credit: the READ responses among them
	paced      pacedFlow  // of the rate: UC, UD and READ responses; its other fields are guarded by mu
	stopped    *Outlet    // that had no room in the last fill, or nil; guarded by the hold
	inLine     *flow      // the one of these two that the last fill found in line, or nil; guarded by mu

	mu           sync.Mutex
	closed       bool
	attr         qpstate.Attr // as modified; State is the current state
	path         *Path        // RC and UC, from RTR on
	route        *route       // RC and UC: what it shares with others; may be nil
	cnpDue       bool
	cnpSent      bool          // the last packet was a CNP
	requestsTurn bool          // the last burst had responses, and there are more
	cnpNext      time.Duration // no CNP is sent before
	marks        *markTable    // UD: senders of marked packets; nil until the first
	mtu          int           // bytes
	wake         bool          // has something to send: unlock puts it on the ready list
	alarm        time.Duration
	localMR      *MR // cache: the region of the last SGE

	missed    atomic.Uint64 // UC and UD: messages without a receive
	answering atomic.Bool   // an outbox holds an answer that may not be sent yet

	req  requester
	resp responder
	rq   recvQueue
	vain vain
}

// CreateQP returns a queue pair in RESET. It grants the requested sizes, but at least 1. It
// returns EOPNOTSUPP for a type other than RC, UC and UD, and EINVAL for a size above the
// engine's limits or a missing CQ, and ENOMEM if there are MaxQP.
func (pd *PD) CreateQP(init QPInit) (*QP, error) {
	transport, ok := map[verbs.QPType]packet.Transport{verbs.RC: packet.RC, verbs.UC: packet.UC, verbs.UD: packet.UD}[init.Type]
	if !ok {
		return nil, syscall.EOPNOTSUPP
	}
	c := init.Cap
	if init.SendCQ == nil || init.RecvCQ == nil || c.MaxSendWR > MaxQPWR || c.MaxSendSGE > MaxSGE || c.MaxInlineData > MaxInline {
		return nil, syscall.EINVAL
	}
	if init.SRQ == nil && (c.MaxRecvWR > MaxQPWR || c.MaxRecvSGE > MaxSGE) {
		return nil, syscall.EINVAL
	}
	c.MaxSendWR, c.MaxSendSGE = max(c.MaxSendWR, 1), max(c.MaxSendSGE, 1)
	qp := &QP{engine: pd.engine, pd: pd, kind: init.Type, transport: transport, sendCQ: init.SendCQ, recvCQ: init.RecvCQ,
		srq: init.SRQ, recvPD: pd, sigAll: init.SigAll, alarmIndex: -1, alarm: never}
	recvSGEs := 0
	if init.SRQ == nil {
		c.MaxRecvWR, c.MaxRecvSGE = max(c.MaxRecvWR, 1), max(c.MaxRecvSGE, 1)
		qp.rq = newRecvQueue(c.MaxRecvWR, c.MaxRecvSGE)
		recvSGEs = int(c.MaxRecvSGE)
	} else {
		c.MaxRecvWR, c.MaxRecvSGE = 0, 0
		recvSGEs = init.SRQ.queue.maxSGE
		qp.recvPD = init.SRQ.pd
	}
	qp.cap = c
	qp.resp.recv.sgl = make([]verbs.SGE, 0, recvSGEs)
	qp.req.init(c)
	qp.reset()
	if err := pd.engine.addQP(qp, uint32(init.Vector), uint32(max(init.Vectors, 1))); err != nil {
		return nil, err
	}
	return qp, nil
}

// QPN returns the queue pair's number.
func (qp *QP) QPN() uint32 { return qp.qpn }

// Cap returns the granted sizes.
func (qp *QP) Cap() verbs.QPCap { return qp.cap }

// Close destroys the queue pair. Queued work requests are dropped without completions. Close
// returns EBUSY while the queue pair is attached to a multicast group.
func (qp *QP) Close() error {
	if qp.groups.Load() > 0 {
		return syscall.EBUSY
	}
	qp.mu.Lock()
	qp.reset()
	qp.closed = true
	qp.mu.Unlock()
	qp.engine.removeQP(qp)
	qp.engine.timers.remove(qp)
	return nil
}

// unlock ends every change of the queue pair. It puts the queue pair on the ready list if it
// has something to send, and sets its alarm if the deadline is earlier.
func (qp *QP) unlock() {
	qp.settle()
	if qp.wake && !qp.closed {
		qp.wake = false
		qp.engine.ready.add(qp)
	}
	if at := min(qp.req.deadline, qp.req.tailProbe, qp.resp.waits, qp.paced.resumes); at < qp.alarm && !qp.closed {
		qp.alarm = at
		qp.engine.timers.set(qp, at)
	}
	qp.mu.Unlock()
}

// reset puts the queue pair into RESET, as if it were new.
func (qp *QP) reset() {
	qp.attr = qpstate.Attr{State: qpstate.Reset, Cap: qp.cap, PathMTU: qpstate.MTU256, PortNum: portNum}
	qp.leave()
	qp.paced.leave()
	qp.path, qp.mtu = nil, 0
	qp.wake, qp.localMR, qp.cnpDue, qp.marks = false, nil, false, nil
	qp.req.reset()
	qp.dropBuffered()
	qp.resp.reset()
	qp.rq.head, qp.rq.count = 0, 0
}

// receive processes a packet for this queue pair. The caller holds mu.
func (qp *QP) receive(now time.Duration, p packet.Packet, d *Datagram) {
	op := p.Opcode()
	if op.Transport() != qp.transport {
		if op == packet.CongestionNotification {
			qp.engine.counters.add(CongestionNotes, 1)
			if qp.canSend() && !qp.foreign(p, d) {
				qp.notified(now, d)
			}
		} else {
			qp.engine.counters.add(DropMismatch, 1)
		}
		return
	}
	switch qp.attr.State {
	case qpstate.RTS, qpstate.SQD:
	case qpstate.RTR, qpstate.SQE:
		if op.IsResponse() {
			qp.engine.counters.add(DropState, 1)
			return
		}
	case qpstate.Error:
		if qp.resp.refused.syndrome == 0 || op.IsResponse() {
			qp.engine.counters.add(DropState, 1)
			return
		}
	default:
		qp.engine.counters.add(DropState, 1)
		return
	}
	if qp.foreign(p, d) {
		qp.engine.counters.add(DropMismatch, 1)
		return
	}
	if d.TOS&ecnMask == ecnCongested && qp.kind != verbs.UD {
		qp.marked(now, op.Operation() == packet.OpReadResponse)
	}
	switch {
	case op.IsResponse():
		qp.receiveResponse(now, p)
	case qp.kind == verbs.UD:
		qp.receiveDatagram(now, p, d)
	case qp.kind == verbs.UC:
		qp.receiveUnreliable(p)
	default:
		qp.receiveRequest(now, p)
	}
}

// foreign reports whether a packet is of another partition or not from the connected peer.
func (qp *QP) foreign(p packet.Packet, d *Datagram) bool {
	return p.BTH().PKey()&0x7fff != 0x7fff || qp.path != nil && (d.Src != qp.path.Dst || d.Dst != qp.path.Src)
}

// outgoing describes a packet that was chosen to be sent but is not built yet.
type outgoing struct {
	opcode  packet.Opcode
	payload int
	path    *Path
	answer  bool   // from the responder; otherwise from the requester
	cnp     bool   // see congestion.go
	cnpTo   uint32 // the queue pair that the CNP is for
	probe   bool   // see recovery.go
	again   bool   // the requester's packets from to to, of work request wqe, once more

	wqe      uint64
	from, to int64
}

func (o *outgoing) size() int { return packet.Len(o.opcode, o.payload) }

// next chooses the packet to send. Answers go before requests, because the peer waits for them, and
// because programs rely on a send's completion before the reply's.
//
// An exception: an ACK goes behind a request's packets in one burst, because only the last
// packet of a burst may be shorter. If the whole message does not fit, the ACK follows its first packet.
// The peer's device puts the ACK first again (acknowledgmentsFirst). segment is the size of the burst's
// packets so far, or 0 at its beginning; it has room for some packets, and bytes.
//
// Another exception: requests and the responses of READs take turns of a burst, because a response may be long.
//
// A CNP goes before everything else. Two go in a row only if there is nothing else, because a receiver of datagrams may
// have many to send.
func (qp *QP) next(now time.Duration, segment, packets, bytes int) (outgoing, bool) {
	if qp.cnpDue && !qp.cnpSent {
		return qp.nextCNP(), true
	}
	answer, ok := qp.nextAnswer(now)
	turn := qp.requestsTurn && qp.resp.answers.due > 0
	if !ok || turn || qp.resp.answers.due == 0 && qp.path.Joined {
		request, more := qp.nextRequest(now, segment == 0)
		switch size := request.size(); {
		case !more:
			qp.requestsTurn = false
		case !ok, turn, segment == 0 && size > answer.size():
			return request, true
		case size == segment && !request.again && !request.probe && qp.restFits(size, packets, bytes-answer.size()):
			return request, true
		}
		answer, ok = qp.nextAnswer(now) // ask again: a request that could not start may have ended the queue pair
	}
	if !ok && qp.cnpDue {
		return qp.nextCNP(), true
	}
	return answer, ok
}

// restFits reports whether the rest of the message being sent fits into a burst of packets of one
// size, and another packet behind it.
func (qp *QP) restFits(size, packets, bytes int) bool {
	w := qp.req.wqe(qp.req.cur)
	left := int(w.end() - qp.req.nxt)
	return (left == 1 || w.length%qp.mtu == 0) && left < packets && left*size <= bytes
}

// build writes the packet that next chose into buf. It returns false if the packet cannot be
// sent after all.
func (qp *QP) build(buf []byte, o *outgoing, now time.Duration) bool {
	p, err := packet.Build(buf, o.opcode, o.payload)
	if err != nil {
		panic("softroce/transport: " + o.opcode.String() + ": " + err.Error())
	}
	qp.cnpSent = o.cnp
	if o.answer {
		return qp.buildAnswer(p)
	}
	switch {
	case o.cnp:
		qp.buildCNP(p, o.cnpTo)
		return true
	case o.probe:
		qp.buildProbe(p)
		return true
	}
	return qp.buildRequest(p, now, o)
}

// fail moves the queue pair to ERR and flushes all work requests, sends first. An ACK or NAK that
// is due is still sent, because the peer's work request would fail with RETRY_EXC_ERR without it.
// Responses that are due, and what follows them, are sent only if refused has a NAK.
func (qp *QP) fail(refused refusal) {
	if qp.attr.State == qpstate.Error || qp.attr.State == qpstate.Reset {
		return
	}
	qp.attr.State = qpstate.Error
	qp.resp.refused = refused
	qp.cnpDue, qp.marks = false, nil
	qp.waitIsOver()
	qp.paced.leave()
	qp.dropBuffered()
	qp.flushSends()
	qp.flushRecvs()
	if refused.syndrome == 0 && qp.resp.due > 0 {
		qp.resp.forgetAnswers()
	}
	if qp.srq != nil {
		qp.event(verbs.EventQPLastWQEReached)
	}
}

// overrun ends the queue pair because a CQ had no room for its completion.
func (qp *QP) overrun() {
	if qp.attr.State != qpstate.Error {
		qp.event(verbs.EventQPFatal)
		qp.fail(refusal{})
	}
}

func (qp *QP) event(t verbs.EventType) {
	qp.engine.cfg.Event(Event{Type: t, QP: qp})
}

func (qp *QP) allows(right verbs.Access) bool { return qp.attr.Access&right != 0 }
