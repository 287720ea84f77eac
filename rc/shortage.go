// Accepting while descriptors or memory run short: a listener pauses, says so, and goes on.

package rc

import (
	"context"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// A listener that cannot accept pauses for firstPause, then twice as long each time, up
// to lastPause. It says so, and again only after shortageOver without a shortage.
const (
	firstPause   = 5 * time.Millisecond
	lastPause    = time.Second
	shortageOver = time.Minute
)

// isShortage says whether an Accept failed because the process or the host has too
// little of something; peers then wait in the kernel's queue.
func isShortage(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// pause waits after a shortage, until ctx ends or Close at the longest.
func (l *Listener) pause(ctx context.Context, length time.Duration, cause error) {
	l.mu.Lock()
	news := time.Since(l.short) > shortageOver
	l.short = time.Now()
	l.mu.Unlock()
	if news {
		events{l.cfg.Logger}.shortage(cause)
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
	case <-l.closed:
	}
}
