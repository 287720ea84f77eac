// Places in a send queue. The engine frees the place of a request when the request is done, as rdma_rxe does.
// The libraries of most adapters free it when the program polls the completion of this request or of a later
// one. A World counts as those libraries do, so that a program which works here works there too.

package simulated

import (
	"slices"

	"github.com/rawverbs/rawverbs/verbs"
)

// place is a request that has a place in a send queue.
type place struct {
	wr       verbs.SendWR
	signaled bool
	failed   bool // and the queue pair has left SQE since: see resume
}

// room returns how many more requests the send queue takes.
func (q *qp) room() int { return int(q.Cap().MaxSendWR) - len(q.places) }

// occupy gives a request, which was posted, its place.
func (q *qp) occupy(wr *verbs.SendWR) {
	p := place{wr: *wr, signaled: q.sigAll || wr.Flags&verbs.SendSignaled != 0}
	p.wr.SGL = slices.Clone(wr.SGL)
	q.places = append(q.places, p)
}

// Poll polls, and frees the places of the sends that are now known to be done.
func (c *cq) Poll(wcs []verbs.WC) (int, error) {
	n := c.CQ.Poll(wcs)
	for i := range wcs[:n] {
		for _, q := range c.d.qps {
			if q.sent(&wcs[i]) {
				q.free(wcs[i].Status, func() int { return q.count(wcs[i+1:n]) + q.completed() })
			}
		}
	}
	return n, nil
}

// sent reports whether a completion is of a send of this queue pair.
func (q *qp) sent(wc *verbs.WC) bool { return wc.QPN == q.QPN() && wc.Opcode&verbs.WCRecv == 0 }

// count counts the completions of sends of this queue pair.
func (q *qp) count(wcs []verbs.WC) (n int) {
	for i := range wcs {
		if q.sent(&wcs[i]) {
			n++
		}
	}
	return n
}

// completed returns how many completions of sends the CQ holds.
func (q *qp) completed() int { return q.count(q.sendCQ.Inspect().Completions) }

// free frees the places up to that of a completion. behind counts the completions behind it. A success is of
// the oldest signaled request. A failure may be of an unsignaled one too, but each request behind it is
// flushed with a completion, except those that were posted after a move from SQE to RTS.
func (q *qp) free(status verbs.WCStatus, behind func() int) {
	switch {
	case q.old > 0:
		q.old--
	case status == verbs.WCSuccess:
		q.places = q.places[1+slices.IndexFunc(q.places, func(p place) bool { return p.signaled }):]
	default:
		known := slices.IndexFunc(q.places, func(p place) bool { return p.failed })
		if known < 0 {
			known = max(len(q.places)-behind(), 0) - 1
		}
		q.places = q.places[known+1:]
	}
}

// failures returns the statuses of the queue's failed sends whose completions the CQ still holds, the oldest first.
func (q *qp) failures() (statuses []verbs.WCStatus) {
	old := q.old
	for _, wc := range q.sendCQ.Inspect().Completions {
		switch {
		case !q.sent(&wc):
		case old > 0:
			old--
		case wc.Status != verbs.WCSuccess:
			statuses = append(statuses, wc.Status)
		}
	}
	return statuses
}

// resume runs at the move from SQE to RTS. It marks the requests whose failures the CQ still holds: they are the
// newest. Requests that are posted later are not flushed with them.
func (q *qp) resume() {
	failures := len(q.failures())
	for _, p := range q.places {
		if p.failed { // before an earlier move
			failures--
		}
	}
	for i := range min(failures, len(q.places)) {
		q.places[len(q.places)-1-i].failed = true
	}
}

// reset empties the queue. The completions that the CQ still holds are of requests from before.
func (q *qp) reset() { q.places, q.old = nil, q.completed() }

// Held is a send that is done, and whose place the program has not freed by a poll yet.
type Held struct {
	WR     verbs.SendWR
	Status verbs.WCStatus // what a poll will find, or WCSuccess if a poll finds nothing
}

// Held returns the held sends of a queue pair, the oldest first. QPView.Sends has those that are not done.
func (w *World) Held(h Host, of *verbs.QP) (held []Held) {
	for _, q := range w.devices[h].qps {
		if q.QPN() != of.QPN() {
			continue
		}
		places := q.places[:max(len(q.places)-len(q.Inspect().Sends), 0)]
		for _, p := range places {
			held = append(held, Held{WR: p.wr})
		}
		q.mark(held, places)
	}
	return held
}

// mark gives the held sends that have failed their statuses. Those from before a move from SQE to RTS are known; the
// others are the newest, because a queue pair flushes what is posted after a failure.
func (q *qp) mark(held []Held, places []place) {
	statuses := q.failures()
	for i := range places {
		if places[i].failed && len(statuses) > 0 {
			held[i].Status, statuses = statuses[0], statuses[1:]
		}
	}
	for i := range min(len(statuses), len(held)) {
		held[len(held)-1-i].Status = statuses[len(statuses)-1-i]
	}
}
