// Silence: what the queue pairs of a route do while its peer does not answer. Silence belongs to the route, because
// all of them ask the same host.
//
//  1. A new route has no answer yet. Its address came from a stranger, and may be that of a host that never asked for
//     packets. All queue pairs together send what one would: four packets, and then one per ACK timeout. Those in
//     line count the same timeouts, so all of them fail together if no answer comes, even those that have sent nothing.
//     If an answer comes, those in line have all of their retries again.
//  2. A route falls silent if a queue pair has sent a few tail-loss probes, and nothing has come from the peer for any
//     of them. Each queue pair then has at most one packet in flight. It needs one of its own, because the peer's
//     other queue pairs may be alive.
//  3. An answer to any queue pair ends this.
//
// While a route is silent, its READs are not charged to this side's receive buffer. So READs from other peers go on.
// Everything here runs with the queue pair's lock held.

package transport

import (
	"sync/atomic"
	"time"
)

const (
	// probedInVain is the number of tail-loss probes without an answer after which a queue pair gives its room back.
	probedInVain = 3
	// probedLong is the same before the peer's first answer: half a second. An ACK timeout is usually sooner.
	probedLong = 9
	// unprovenPacket is the charge for a packet before the peer's first answer, whatever the path MTU: packets
	// are counted then.
	unprovenPacket = 4096
	unprovenWindow = 4 // packets until the first answer
	unprovenResend = 1 // the same, after a timeout
)

// silence is what a route knows of its peer's answers.
type silence struct {
	quiet atomic.Uint32 // unproven, silent, or both; 0 since an answer
	heard time.Duration // the last answer; guarded by the fair queue's lock
}

const (
	unproven = 1 << iota // the peer has never answered a packet
	silent               // a queue pair has sent probedInVain tail-loss probes without an answer
)

// vain is a queue pair's tail-loss probes since the peer's last answer to any queue pair.
type vain struct {
	since  time.Duration
	probes uint8 // up to probedInVain
}

// hear notes an answer of the peer. The caller holds the fair queue's lock.
func (r *route) hear(now time.Duration) {
	r.heard = now
	if r.quiet.Load() != 0 {
		r.quiet.Store(0)
	}
}

// peerAnswered notes an answer that acknowledges nothing.
func (qp *QP) peerAnswered(now time.Duration) {
	if r := qp.route; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hear(now)
		r.adjust()
	}
}

// tailProbed notes a tail-loss probe. It counts even if the queue pair sends nothing then, because it has not measured a round
// trip yet: what it sent before has had no answer all the same.
func (qp *QP) tailProbed(now time.Duration) {
	r, v := qp.route, &qp.vain
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard >= v.since {
		*v = vain{since: now}
	}
	if v.probes < probedInVain {
		v.probes++
	}
	if v.probes == probedInVain {
		r.quiet.Or(silent)
	}
	if qp.req.tailProbes >= probedLong {
		r.unanswered()
	}
}

// timedOut notes an ACK timeout. The path is full if the peer answers the tail-loss probes, or if nobody
// at its address answers. Otherwise only the queue pair's peer is gone.
func (qp *QP) timedOut(now time.Duration) {
	if r := qp.route; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.unanswered(); r.is(unproven) {
			qp.req.tailProbes = 0
		} else if qp.req.tailProbes < probedInVain || r.is(silent) {
			r.controller.cut(now, qp.req.trip.mean, 0.5, leastWindow*int64(qp.mtu))
			r.adjust()
		}
	}
}

// unanswered leaves the room of one packet until the peer's first answer. The caller holds the fair queue's lock.
func (r *route) unanswered() {
	if r.is(unproven) {
		r.window.Store(min(unprovenResend*unprovenPacket, r.controller.window))
	}
}

// is reports whether the peer is unproven, or silent.
func (r *route) is(what uint32) bool { return r.quiet.Load()&what != 0 }

// unproven reports whether the queue pair's route has no answer yet.
func (qp *QP) unproven() bool { return qp.route != nil && qp.route.is(unproven) }

// charge returns what a packet in flight counts, in bytes.
func (qp *QP) charge() int64 {
	if qp.route.is(unproven) {
		return unprovenPacket
	}
	return int64(qp.mtu)
}

// settleInSilence is settle for a queue pair whose peer does not answer it, or that can send no more.
func (qp *QP) settleInSilence(due, expected int64) {
	r, q, probed := qp.route, &qp.req, uint8(probedInVain)
	if r.is(unproven) {
		probed = probedLong
	}
	if q.tailProbes >= probed || r.quiet.Load() == silent || !qp.canSend() {
		due = 0
	}
	if q.tailProbes >= probedInVain || r.is(silent) || !qp.canSend() {
		expected = 0
	}
	qp.flight.settle(due * qp.charge())
	qp.reads.settle(expected * int64(qp.mtu))
}
