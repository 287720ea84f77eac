// A queue that one goroutine waits on and that others fill without blocking.

package softroce

import "sync"

// queue is an unbounded queue. Its user must bound it: the number of asynchronous events, for
// example, is bounded by the number of objects.
type queue[T any] struct {
	mu     sync.Mutex
	some   sync.Cond
	items  []T
	closed bool
}

func (q *queue[T]) init() { q.some.L = &q.mu }

// put adds an item. The caller may hold other locks.
func (q *queue[T]) put(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, item)
	q.some.Signal()
}

// wait removes and returns the oldest item. It returns false after close.
func (q *queue[T]) wait() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.some.Wait()
	}
	if q.closed {
		return item, false
	}
	item = q.items[0]
	q.items = append(q.items[:0], q.items[1:]...)
	return item, true
}

func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.some.Broadcast()
}
