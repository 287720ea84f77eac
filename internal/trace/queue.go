// Writing without waiting: a job must not wait for a terminal that its user has stopped.

package trace

import (
	"io"
	"sync"
)

// queue is a Writer that returns at once. One goroutine writes to w. The user of a queue limits how
// much is written: a ladder has a limited number of rows.
type queue struct {
	w io.Writer

	mu      sync.Mutex
	waiting []byte
	busy    bool // write runs
	err     error
	writer  sync.WaitGroup
}

// Write returns the error of an earlier write to w. Nothing is written after an error.
func (q *queue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return 0, q.err
	}
	q.waiting = append(q.waiting, p...)
	if !q.busy {
		q.busy = true
		q.writer.Go(q.write)
	}
	return len(p), nil
}

// write writes until nothing waits.
func (q *queue) write() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 && q.err == nil {
		next := q.waiting
		q.waiting = nil
		q.mu.Unlock()
		_, err := q.w.Write(next)
		q.mu.Lock()
		q.err = err
	}
	q.busy = false
}

// flush waits until everything is written. No Write may run beside it.
func (q *queue) flush() error {
	q.writer.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}
