// Package serial runs functions in order in a separate goroutine. Callbacks that must
// return at once use it for work that may block.
package serial

import "sync"

// Queue runs functions one at a time, in the order of Do. It has a goroutine only while
// functions are queued. The zero value is ready to use. Several goroutines may call its
// methods at once, except Do during Wait.
type Queue struct {
	mu      sync.Mutex
	waiting []func()
	running bool
	runs    sync.WaitGroup
}

// Do queues f to run after all functions queued before. It returns at once.
func (q *Queue) Do(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, f)
	if !q.running {
		q.running = true
		q.runs.Go(q.run)
	}
}

// Wait returns when all queued functions have run. Do must not be called during Wait.
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
