// Queue pairs: what the requester and the responder of one share, and its states.

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

// QPInit says what queue pair to make.
type QPInit struct {
	Type           verbs.QPType
	SendCQ, RecvCQ *CQ
	SRQ            *SRQ // nil: a receive queue of its own
	Cap            verbs.QPCap
	SigAll         bool // every send completes; else those with SendSignaled
}

// QP is a queue pair: RC, UC or UD.
type QP struct {
	User any // the owner's own

	engine         *Engine
	pd             *PD
	qpn            uint32
	kind           verbs.QPType
	transport      packet.Transport
	sendCQ, recvCQ *CQ
	srq            *SRQ
	recvPD         *PD          // of the receives' memory: the SRQ's, or pd
	groups         atomic.Int32 // that it is a member of
	cap            verbs.QPCap
	sigAll         bool

	ready      readyState // under the ready list's lock
	alarmIndex int        // under the timers' lock

	mu      sync.Mutex
	closed  bool
	attr    qpstate.Attr // as modified; State is the true one
	path    *Path        // RC and UC, from RTR on
	mtu     int          // bytes
	wake    bool         // has something to send: unlock tells the engine
	alarm   time.Duration
	localMR *MR // the region of the last SGE, to find it faster

	req  requester
	resp responder
	rq   recvQueue
}

// CreateQP makes a queue pair in RESET. The sizes granted are those asked for,
// and at least 1. EOPNOTSUPP for a type but RC, UC and UD; EINVAL for a size
// above the engine's limits or a missing CQ.
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
	if err := pd.engine.addQP(qp); err != nil {
		return nil, err
	}
	return qp, nil
}

// QPN is the queue pair's number.
func (qp *QP) QPN() uint32 { return qp.qpn }

// Cap is the sizes granted.
func (qp *QP) Cap() verbs.QPCap { return qp.cap }

// Close destroys the queue pair; work still queued vanishes without completions. EBUSY
// while it is attached to a multicast group.
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

// unlock ends whatever was done to the queue pair, and tells the engine of what
// follows from it: something to send, an alarm to set.
func (qp *QP) unlock() {
	if qp.wake && !qp.closed {
		qp.wake = false
		qp.engine.ready.add(qp)
	}
	if at := qp.req.deadline; at < qp.alarm && !qp.closed {
		qp.alarm = at
		qp.engine.timers.set(qp, at)
	}
	qp.mu.Unlock()
}

// reset makes the queue pair as new, in RESET.
func (qp *QP) reset() {
	qp.attr = qpstate.Attr{State: qpstate.Reset, Cap: qp.cap, PathMTU: qpstate.MTU256, PortNum: portNum}
	qp.path, qp.mtu = nil, 0
	qp.wake, qp.localMR = false, nil
	qp.req.reset(qp.engine.cfg.Window)
	qp.resp.reset()
	qp.rq.head, qp.rq.count = 0, 0
}

// receive takes in one packet for this queue pair, with its lock held.
func (qp *QP) receive(now time.Duration, p packet.Packet, d *Datagram) {
	op := p.Opcode()
	if op.Transport() != qp.transport {
		if op == packet.CongestionNotification {
			qp.engine.counters.add(CongestionNotes, 1)
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
	switch {
	case op.IsResponse():
		qp.receiveResponse(now, p)
	case qp.kind == verbs.UD:
		qp.receiveDatagram(p, d)
	case qp.kind == verbs.UC:
		qp.receiveUnreliable(p)
	default:
		qp.receiveRequest(p)
	}
}

// foreign says that a packet is of another partition, or not from the connected peer.
func (qp *QP) foreign(p packet.Packet, d *Datagram) bool {
	return p.BTH().PKey()&0x7fff != 0x7fff || qp.path != nil && (d.Src != qp.path.Dst || d.Dst != qp.path.Src)
}

// outgoing is a packet decided upon and not yet built.
type outgoing struct {
	opcode  packet.Opcode
	payload int
	path    *Path
	answer  bool // the responder's, else the requester's
}

func (o *outgoing) size() int { return packet.Len(o.opcode, o.payload) }

// next decides on the packet to send: answers before requests, since the peer
// waits for them. But at the beginning of a burst an acknowledgement gives way to
// a request packet that is no shorter: only the last packet of a burst may be
// shorter than the others, and so both go in one burst, and by one way through
// the system, where a message is answered by a message.
func (qp *QP) next(now time.Duration, first bool) (outgoing, bool) {
	answer, ok := qp.nextAnswer()
	if !ok || first && qp.resp.answers.due == 0 {
		if request, more := qp.nextRequest(now); more && (!ok || request.size() >= answer.size()) {
			return request, true
		}
	}
	return qp.nextAnswer() // again: a request that could not start may have ended the queue pair
}

// build lays the packet that next decided upon into buf, and moves on; false if
// it turned out that it cannot be sent.
func (qp *QP) build(buf []byte, o *outgoing, now time.Duration) bool {
	p, err := packet.Build(buf, o.opcode, o.payload)
	if err != nil {
		panic("softroce/transport: " + o.opcode.String() + ": " + err.Error())
	}
	if o.answer {
		return qp.buildAnswer(p)
	}
	return qp.buildRequest(p, now)
}

// fail moves the queue pair to ERR: all work is flushed, sends first. Answers
// that are owed are sent only if refused is a NAK that explains why.
func (qp *QP) fail(refused refusal) {
	if qp.attr.State == qpstate.Error || qp.attr.State == qpstate.Reset {
		return
	}
	qp.attr.State = qpstate.Error
	qp.resp.refused = refused
	qp.flushSends()
	qp.flushRecvs()
	if refused.syndrome == 0 {
		qp.resp.forgetAnswers()
	}
	if qp.srq != nil {
		qp.event(verbs.EventQPLastWQEReached)
	}
}

// overrun is for a CQ that took no more: the queue pair cannot keep its promises.
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
