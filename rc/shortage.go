// Accepting when descriptors or memory run short: the listener logs that, pauses and tries again.

package rc

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// A listener that cannot accept pauses for firstPause, then twice as long each time, up to
// lastPause. It logs the first shortage, and another one only after shortageOver without any.
const (
	firstPause   = 5 * time.Millisecond
	lastPause    = time.Second
	shortageOver = time.Minute
)

// isShortage reports whether Accept failed because descriptors or memory run short. Peers then wait
// in the kernel's queue.
func isShortage(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && slices.Contains([]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}, errno)
}

// pause waits after a shortage. The end of ctx and Close end it early.
func (l *Listener) pause(ctx context.Context, length time.Duration, cause error) {
	l.mu.Lock()
	news := time.Since(l.short) > shortageOver
	l.short = time.Now()
	l.mu.Unlock()
	if news {
		newEvents(l.cfg.Logger).shortage(cause)
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
	case <-l.closed:
	}
}
