// The queue of asynchronous events. One goroutine waits on it, and others fill it without blocking.

package softroce

import (
	"sync"

	"github.com/rawverbs/rawverbs/verbs"
)

// mostEvents is the number of events that wait for a program. A program that does not subscribe takes none.
const mostEvents = 1024

type eventQueue struct {
	mu     sync.Mutex
	some   sync.Cond
	events []verbs.AsyncEvent
	lost   uint64
	closed bool
}

func (q *eventQueue) init() { q.some.L = &q.mu }

// put adds an event. If too many wait, the oldest is lost, because its object probably is gone. After DEVICE_FATAL the
// program closes all objects, so the new event is lost. The caller may hold other locks.
func (q *eventQueue) put(e verbs.AsyncEvent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == mostEvents {
		q.lost++
		if q.events[0].Type == verbs.EventDeviceFatal {
			return
		}
		q.pop()
	}
	q.events = append(q.events, e)
	q.some.Signal()
}

// pop removes the oldest event. The caller holds mu.
func (q *eventQueue) pop() (oldest verbs.AsyncEvent) {
	oldest, q.events[0] = q.events[0], verbs.AsyncEvent{} // which refers to an object
	q.events = q.events[1:]
	return oldest
}

// wait removes and returns the oldest event. It returns false after close.
func (q *eventQueue) wait() (e verbs.AsyncEvent, ok bool) {
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

// losses returns the number of events that were lost.
func (q *eventQueue) losses() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

func (q *eventQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.some.Broadcast()
}
