// Package eventqueue keeps asynchronous events until a program takes them. One goroutine takes them, and
// others put them without blocking.
package eventqueue

import (
	"slices"
	"sync"
)

// Most is the number of events that wait for a program. A program that does not subscribe takes none.
const Most = 1024

// Queue is a queue of events. Call Init before anything else.
type Queue[E any] struct {
	mu     sync.Mutex
	some   sync.Cond
	events []E
	stays  func(E) bool
	lost   uint64
	closed bool
}

// Init makes an empty queue. Other events do not displace an event for which stays returns true.
func (q *Queue[E]) Init(stays func(E) bool) { q.some.L, q.stays = &q.mu, stays }

// Put adds an event. If too many wait, the oldest is lost, because its object probably is gone. After an event that
// stays, such as DEVICE_FATAL, the program closes all objects, so the new event is lost. The caller may hold other
// locks.
func (q *Queue[E]) Put(e E) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == Most {
		q.lost++
		if q.stays(q.events[0]) {
			return
		}
		q.pop()
	}
	q.events = append(q.events, e)
	q.some.Signal()
}

// pop removes the oldest event. The caller holds mu.
func (q *Queue[E]) pop() (oldest E) {
	var none E
	oldest, q.events[0] = q.events[0], none // which may refer to an object
	q.events = q.events[1:]
	return oldest
}

// Wait removes and returns the oldest event. It returns false after Close.
func (q *Queue[E]) Wait() (e E, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.events) == 0 && !q.closed {
		q.some.Wait()
	}
	if q.closed {
		return e, false
	}
	return q.pop(), true
}

// Waiting returns the events that wait, oldest first.
func (q *Queue[E]) Waiting() []E {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.events)
}

// Lost returns the number of events that were lost.
func (q *Queue[E]) Lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// Close ends Wait.
func (q *Queue[E]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.some.Broadcast()
}
