// Starvation: an ACK timeout while packets lie unread.
//
// On a busy host a program may get no processor time for seconds. Its packets then wait in the
// kernel: requests at the responder, or the acknowledgements at the requester itself. Such a silence
// says nothing of the peer, so it does not count for RETRY_CNT. To send everything again would only
// make the reader slower. So the requester sends its oldest packet, in case that one was lost, and
// waits longer, until a timeout counts again.
//
// Everything here runs with the queue pair's lock held.

package transport

import "time"

const (
	// mostStarved is the number of ACK timeouts in a row that do not count. After that they count,
	// because the peer may be stopped for good. With TIMEOUT 14 this takes 23 s, and all retries 25 s.
	mostStarved = 24
	// starvedPatience limits how far the timeout grows meanwhile, as a power of two: to a second with
	// TIMEOUT 14.
	starvedPatience = 4
)

// starved reports whether the ACK timeout that has just expired does not count. Its wait began at a time. The
// requester then waits again.
func (qp *QP) starved(now, began time.Duration) bool {
	r := &qp.req
	if r.starvedTimeouts >= mostStarved || qp.engine.cfg.Unread == nil || !qp.engine.cfg.Unread(qp.path, began) {
		return false
	}
	r.starvedTimeouts++
	r.grown = min(r.grown+1, starvedPatience)
	qp.engine.counters.add(StarvedTimeouts, 1)
	if r.una < r.nxt && !qp.repeatable() {
		qp.sendProbe()
	} else if r.una < r.nxt {
		r.again, r.resent, r.resentAt, r.timed = r.una, r.una, now, nowhere
	}
	qp.wake = true
	qp.setDeadline(now)
	return true
}
