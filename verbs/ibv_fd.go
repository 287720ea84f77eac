//go:build linux && cgo

// The C wall: waiting on libibverbs' file descriptors through Go's poller.

package verbs

import (
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// fdWaiter waits until a read from libibverbs' descriptor would not block. The
// descriptor stays libibverbs' own; the waiter watches a duplicate.
type fdWaiter struct {
	file   *os.File
	raw    syscall.RawConn
	try    func(uintptr) bool // reads, and says whether that was it; made once, so that waiting allocates nothing
	once   func(uintptr) bool // reads, and that was it
	errno  syscall.Errno      // what the last read answered
	closed atomic.Bool        // a RawConn's own error for it is not os.ErrClosed
}

// newFDWaiter makes fd, which read reads, non-blocking and watches it.
func newFDWaiter(fd int, name string, read func() syscall.Errno) (*fdWaiter, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(dup), name)
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	w := &fdWaiter{file: file, raw: raw}
	w.try = func(uintptr) bool {
		for w.errno = read(); w.errno == syscall.EINTR; {
			w.errno = read()
		}
		return w.errno != syscall.EAGAIN
	}
	w.once = func(fd uintptr) bool {
		w.try(fd)
		return true
	}
	return w, nil
}

// wait calls read whenever there may be something, until it answers anything but
// EAGAIN, and returns that; net.ErrClosed after close. One goroutine at a time waits.
func (w *fdWaiter) wait() error { return w.read(w.try) }

// now is wait that does not wait: EAGAIN if there is nothing.
func (w *fdWaiter) now() error { return w.read(w.once) }

func (w *fdWaiter) read(how func(uintptr) bool) error {
	err := w.raw.Read(how)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errTick
	case err != nil && w.closed.Load():
		return net.ErrClosed
	case err != nil:
		return err
	case w.errno != 0:
		return w.errno
	}
	return nil
}

// errTick is what wait answers when the time that tick set has come, and after interrupt.
var errTick = errors.New("nothing came in time")

// tick makes the next wait end after d if nothing came.
func (w *fdWaiter) tick(d time.Duration) error {
	err := w.file.SetReadDeadline(time.Now().Add(d))
	if err != nil && w.closed.Load() {
		return net.ErrClosed
	}
	return err
}

// Interrupt makes the wait that is under way end, and each that follows, until resume.
func (w *fdWaiter) Interrupt() { _ = w.file.SetReadDeadline(time.Unix(1, 0)) }

// resume ends what Interrupt began. What is to be seen by who is interrupted is
// looked for after it.
func (w *fdWaiter) resume() { _ = w.file.SetReadDeadline(time.Time{}) }

// close wakes the waiter. It returns once no read is under way.
func (w *fdWaiter) close() error {
	w.closed.Store(true)
	return w.file.Close()
}
