// Package asyncwriter writes without waiting: a job must not wait for a terminal that its user
// has stopped.
package asyncwriter

import (
	"io"
	"sync"
)

// Writer is an io.Writer that returns at once. One goroutine writes to the Writer behind it. Its
// user limits how much is written, because what waits is in memory.
type Writer struct {
	out io.Writer

	mu      sync.Mutex
	waiting []byte
	busy    bool // write runs
	err     error
	writer  sync.WaitGroup
}

// New returns a Writer to w.
func New(w io.Writer) *Writer { return &Writer{out: w} }

// Write returns the error of an earlier write. Nothing is written after an error.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.waiting = append(w.waiting, p...)
	if !w.busy {
		w.busy = true
		w.writer.Go(w.write)
	}
	return len(p), nil
}

// write writes until nothing waits.
func (w *Writer) write() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) > 0 && w.err == nil {
		next := w.waiting
		w.waiting = nil
		w.mu.Unlock()
		_, err := w.out.Write(next)
		w.mu.Lock()
		w.err = err
	}
	w.busy = false
}

// Flush waits until everything is written. No Write may run at the same time.
func (w *Writer) Flush() error {
	w.writer.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
