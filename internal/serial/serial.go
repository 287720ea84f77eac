// Package serial runs functions in order, in a goroutine of their own: for callbacks that
// must return at once, and have something to do that may block.
package serial

import "sync"

// Queue runs the functions that it is given, one at a time. The zero value is ready; it
// has a goroutine only while there is something to run.
type Queue struct {
	mu      sync.Mutex
	waiting []func()
	running bool
	runs    sync.WaitGroup
}

// Do has f run after those given before, and does not wait for it.
func (q *Queue) Do(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, f)
	if !q.running {
		q.running = true
		q.runs.Go(q.run)
	}
}

// Wait returns when all functions have run. Do must not be called meanwhile.
func (q *Queue) Wait() { q.runs.Wait() }

func (q *Queue) run() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.running = false
			q.mu.Unlock()
			return
		}
		f := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		f()
	}
}
