// Writing without waiting: a job must not wait for a terminal that its user has stopped.

package trace

import (
	"bytes"
	"io"
	"sync"

	"github.com/rawverbs/rawverbs/internal/serial"
)

// asyncWriter is an io.Writer that returns at once. Another goroutine writes to the Writer behind
// it. Its user limits how much is written, because what waits is in memory.
type asyncWriter struct {
	out   io.Writer
	queue serial.Queue

	mu  sync.Mutex
	err error // of the first write that failed
}

// Write returns the error of an earlier write. Nothing is written after an error.
func (w *asyncWriter) Write(p []byte) (int, error) {
	if err := w.failed(); err != nil {
		return 0, err
	}
	p = bytes.Clone(p)
	w.queue.Do(func() {
		if w.failed() != nil {
			return
		}
		_, err := w.out.Write(p)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = err
	})
	return len(p), nil
}

// flush waits until everything is written. No Write may run at the same time.
func (w *asyncWriter) flush() error {
	w.queue.Wait()
	return w.failed()
}

func (w *asyncWriter) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
