// Paced senders: UC and UD obey the rate of their route (package pace), because they have no window. So do the READ
// responses of RC, because the requester decides how much is asked for: hardware and rdma_rxe ask for all at once.
// A requester that must wait does so until a deadline, as for an RNR NAK. A responder sends no answers meanwhile, because
// answers are sent in order, but its queue pair may send requests.
//
// A queue pair of UD sends in order. So it waits with all its messages, though the next one may go to
// another address.
//
// Everything here runs with the queue pair's lock held.

package transport

import (
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/pace"
)

// paced is what a requester of UC or UD, or a responder of RC, may send.
type paced struct {
	to      *route // of the packets being sent; may be nil
	turn    pace.Turn
	allowed int32 // bytes that may leave when the turn comes
	sent    int32 // bytes sent that the route does not know of
	waits   bool  // the turn has not come yet
}

// waitForRate returns true if the next packet, of size bytes, must wait. The requester then waits.
func (qp *QP) waitForRate(now time.Duration, w *sendWQE, size int) bool {
	to := qp.route
	if w.route != nil {
		to = w.route
	}
	at := qp.req.paced.wait(now, to, size, &qp.engine.counters)
	if at <= now {
		return false
	}
	qp.req.waiting, qp.req.deadline = true, at
	return true
}

// waitToRespond returns true if the next packet of a READ response, of size bytes, must wait. The responder then waits.
func (qp *QP) waitToRespond(now time.Duration, size int) bool {
	rs := &qp.resp
	rs.resumes = never
	if at := rs.paced.wait(now, qp.route, size, &qp.engine.counters); at > now {
		rs.resumes = at
	}
	return rs.resumes != never
}

// wait returns when to ask again whether the next packet, of size bytes, may be sent to a route. It may be sent if that
// time is now.
func (p *paced) wait(now time.Duration, to *route, size int, c *counters) time.Duration {
	if p.to != to {
		p.left(now)
		p.giveBack()
		p.to = to
	}
	if to == nil || !to.rate.Limited() {
		p.waits = false
		return now
	}
	asked := p.waits
	if int(p.allowed) < size {
		turn, allowed := to.rate.Reserve(now, size)
		p.turn, p.allowed, p.waits = turn, p.allowed+int32(allowed), true
	}
	if !p.waits {
		return now
	}
	at := to.rate.When(now, p.turn)
	if at <= now {
		p.waits = false
	} else if !asked {
		c.add(RateWaits, 1)
	}
	return at
}

// built notes that a packet was built.
func (p *paced) built(size int) {
	p.sent += int32(size)
	p.use(size)
}

// use takes a packet's bytes from those that may leave.
func (p *paced) use(size int) { p.allowed = max(0, p.allowed-int32(size)) }

// left reports to the route how much was sent.
func (p *paced) left(now time.Duration) {
	if p.sent > 0 && p.to != nil {
		p.to.rate.Sent(now, int(p.sent))
	}
	p.sent = 0
}

// giveBack returns to the route the bytes that the queue pair has reserved and does not send. Others need not wait for
// these bytes then.
func (p *paced) giveBack() {
	if p.allowed > 0 {
		p.to.rate.Return(int(p.allowed))
	}
	p.allowed, p.waits = 0, false
}
