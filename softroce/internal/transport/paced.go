// Paced senders: UC and UD obey the rate of their route (package pace), because they have no window.
// A queue pair that must wait does so until a deadline, as for an RNR NAK.
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

// paced is what a requester of UC or UD may send.
type paced struct {
	to      *route // of the packets being sent; may be nil
	allowed int    // bytes that may leave when the turn comes
	turn    pace.Turn
	waits   bool // the turn has not come yet
	sent    int  // bytes sent that the route does not know of
}

// waitForRate returns true if the next packet, of size bytes, must wait. The requester then waits.
func (qp *QP) waitForRate(now time.Duration, w *sendWQE, size int) bool {
	p, to := &qp.req.paced, qp.route
	if w.route != nil {
		to = w.route
	}
	if p.to != to {
		p.left(now)
		p.giveBack()
		p.to = to
	}
	if to == nil || !to.rate.Limited() {
		p.waits = false
		return false
	}
	asked := p.waits
	if p.allowed < size {
		turn, allowed := to.rate.Reserve(now, size)
		p.turn, p.allowed, p.waits = turn, p.allowed+allowed, true
	}
	if !p.waits {
		return false
	}
	at := to.rate.When(now, p.turn)
	if at <= now {
		p.waits = false
		return false
	}
	if !asked {
		qp.engine.counters.add(RateWaits, 1)
	}
	qp.req.waiting, qp.req.deadline = true, at
	return true
}

// built notes that a packet was built.
func (p *paced) built(size int) {
	p.sent += size
	p.allowed = max(0, p.allowed-size)
}

// left reports to the route how much was sent.
func (p *paced) left(now time.Duration) {
	if p.sent > 0 && p.to != nil {
		p.to.rate.Sent(now, p.sent)
	}
	p.sent = 0
}

// giveBack returns to the route the bytes that the queue pair has reserved and does not send. Others need not wait for
// these bytes then.
func (p *paced) giveBack() {
	if p.allowed > 0 {
		p.to.rate.Return(p.allowed)
	}
	p.allowed, p.waits = 0, false
}
