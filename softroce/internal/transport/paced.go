// Pacing: UC, UD and long READ responses of RC have no acknowledgements. After the first CNP they obey the same congestion
// controller as a window, and wait in the same fair queue. Their packets count as in flight until the rate has let
// them leave: a window per usualTrip. So the window is a rate. Without CNPs there is no limit.
//
// A queue pair that waits is in line. The first in line asks again when its quantum may have come, the others when they are the
// first. A responder sends no answers meanwhile, because answers are sent in order, but its queue pair may send requests.
//
// A queue pair of UD sends in order. So it waits with all its messages, though the next one may go to
// another address.
//
// Everything here runs with the queue pair's lock held.

package transport

import "time"

const (
	// pacedStep is the growth of the window per usualTrip, in bytes. With a larger one, more packets are lost (make
	// simulate RUN=incast-u).
	pacedStep = 2048
	// leastPaced is the lowest rate: 1.25 MB/s, in bytes per usualTrip.
	leastPaced = 100
	// lateness is how late a sender may be and still send what it missed, in usualTrips: timers are late by up to a millisecond.
	lateness = 12
	// askAgain is the longest time after which the first in line asks again, because the rate may grow.
	askAgain = 100 * time.Microsecond
	// unusedFor is the time without use after which the limit is forgotten.
	unusedFor = 10 * time.Millisecond
)

// pacer is the rate to one address.
type pacer struct {
	fairQueue                // spent is below 0 after a pause: see lateness
	controller controller    // guarded by the fair queue's lock, like the rest
	at         time.Duration // packets have left until then
	cnpAt      time.Duration
	waitedAt   time.Duration // with a window below its limit
}

// pacedFlow is a queue pair's part in the rate of a route.
type pacedFlow struct {
	flow
	to      *route        // of the packets being sent; may be nil
	waiting bool          // in line since the last packet
	asked   bool          // in line in the last fill
	resumes time.Duration // when it asks again; never: it is not the first in line
}

func (p *pacer) init(limit int64) { p.timed, p.controller.limit = true, limit }

// congested obeys a CNP.
func (p *pacer) congested(now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass(now)
	if p.window.Load() == 0 {
		p.controller.init(p.controller.limit)
		p.at = now
		p.spent.Store(0)
	}
	p.cnpAt = now
	p.controller.congested(now, usualTrip, leastPaced)
	p.window.Store(p.controller.window)
}

// limited reports whether the rate has a limit now.
func (p *pacer) limited() bool { return p.window.Load() > 0 }

// pass lets packets leave until now. It forgets a limit that nobody needs. The caller holds the lock.
func (p *pacer) pass(now time.Duration) {
	c := &p.controller
	left := int64(float64(c.window) * float64(now-p.at) / float64(usualTrip))
	switch spent := p.spent.Load(); {
	case !p.limited() || left <= 0:
	case now-max(p.cnpAt, p.waitedAt) > unusedFor:
		p.window.Store(0)
	default:
		p.at += time.Duration(float64(left) / float64(c.window) * float64(usualTrip))
		p.spent.Add(-min(left, spent+lateness*c.window))
		grown := min(left, max(spent, 0)) // no more than has left
		if p.length.Load() > 0 {
			grown, spent = left, c.window
		}
		if now-p.cnpAt >= usualTrip { // otherwise many senders at their lowest rate would all grow
			c.acked(grown, pacedStep, spent, usualTrip)
			p.window.Store(c.window)
		}
	}
}

// waitsFor returns true if the next packet, which goes to a route, must wait for the rate. The queue pair is then in line.
func (qp *QP) waitsFor(now time.Duration, to *route) bool {
	f := &qp.paced
	if f.to != to {
		f.leave()
		if f.to = to; to != nil {
			f.join(&to.pacer.fairQueue, qp)
		}
	}
	if to != nil && f.quantum.Load() == 0 {
		p := &to.pacer
		if p.limited() {
			p.mu.Lock()
			p.pass(now)
			p.mu.Unlock()
			p.advance()
		}
		switch {
		case p.limited():
			if f.waits() {
				f.askLater(now)
				return true
			}
		case f.waiting: // the limit is forgotten
			f.stop()
		}
	}
	f.waiting, f.asked = false, false
	return false
}

// end gives back what is left of the quantum, because the queue pair has no more to send now, unless it waits.
func (f *pacedFlow) end() {
	switch {
	case f.asked:
	case f.waiting:
		f.stop()
		f.waiting = false
	default:
		f.endQuantum()
	}
}

// askLater sets the time at which the flow asks again, if it is the first in line.
func (f *pacedFlow) askLater(now time.Duration) {
	p := &f.to.pacer
	p.mu.Lock()
	defer p.mu.Unlock()
	if !f.waiting {
		f.qp.engine.counters.add(RateWaits, 1)
	}
	f.waiting, f.asked, f.resumes = true, true, never
	if p.controller.window < p.controller.limit {
		p.waitedAt = now
	}
	if p.first == &f.flow {
		window := max(p.window.Load(), leastPaced) // 0: the limit is forgotten meanwhile
		missing := p.spent.Load() + p.quantum() - window
		f.resumes = now + min(max(time.Duration(float64(missing)/float64(window)*float64(usualTrip)), 1), askAgain)
	}
}

// built notes that a packet was built.
func (f *pacedFlow) built(size int) {
	if f.to != nil && f.to.pacer.limited() {
		f.use(int64(size))
	}
}

// leave ends the wait, and gives back what the flow does not send.
func (f *pacedFlow) leave() {
	if f.to != nil {
		f.flow.leave()
	}
	f.to, f.waiting, f.asked, f.resumes = nil, false, false, never
}
