// Queue: events in the order of their time.

package wire

import (
	"math"
	"time"
)

// Never is later than every event.
const Never = time.Duration(math.MaxInt64)

// Queue has events in the order of their time. Events of one time keep the order in which they were added. The zero
// Queue is empty.
type Queue[E any] struct {
	heap  []entry[E] // the earliest is first
	added uint64
}

type entry[E any] struct {
	at    time.Duration
	order uint64
	event E
}

func (a *entry[E]) before(b *entry[E]) bool { return a.at < b.at || a.at == b.at && a.order < b.order }

// Next returns the time of the earliest event, or Never if there is none.
func (q *Queue[E]) Next() time.Duration {
	if len(q.heap) == 0 {
		return Never
	}
	return q.heap[0].at
}

// Push adds an event.
func (q *Queue[E]) Push(at time.Duration, event E) {
	q.added++
	e := entry[E]{at, q.added, event}
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for ; i > 0 && e.before(&q.heap[(i-1)/2]); i = (i - 1) / 2 {
		q.heap[i] = q.heap[(i-1)/2]
	}
	q.heap[i] = e
}

// Pop removes the earliest event. There must be one.
func (q *Queue[E]) Pop() (at time.Duration, event E) {
	first := q.heap[0]
	last := len(q.heap) - 1
	e := q.heap[last]
	q.heap[last] = entry[E]{}
	q.heap = q.heap[:last]
	if last == 0 {
		return first.at, first.event
	}
	i := 0
	for child := 1; child < last; child = 2*i + 1 {
		if child+1 < last && q.heap[child+1].before(&q.heap[child]) {
			child++
		}
		if !q.heap[child].before(&e) {
			break
		}
		q.heap[i] = q.heap[child]
		i = child
	}
	q.heap[i] = e
	return first.at, first.event
}
