//go:build linux && cgo && !nolibibverbs

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

// fdWaiter waits until libibverbs' descriptor can be read without blocking. libibverbs keeps its
// descriptor; the waiter watches a duplicate.
type fdWaiter struct {
	file   *os.File
	raw    syscall.RawConn
	try    func(uintptr) bool // reads once and reports whether waiting can end; made once, so that waiting does not allocate
	once   func(uintptr) bool // reads once and never waits
	errno  syscall.Errno      // result of the last read
	closed atomic.Bool        // needed because RawConn's error after Close is not os.ErrClosed
}

// newFDWaiter makes fd non-blocking and watches it. read reads from fd.
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

// wait calls read whenever fd is readable, until read returns something other than EAGAIN, and
// returns that result. It returns net.ErrClosed after close. One goroutine at a time may wait.
func (w *fdWaiter) wait() error { return w.read(w.try) }

// now is a non-blocking read. It returns EAGAIN if there is nothing to read.
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

// errTick is the error of wait after the deadline that tick set, and after Interrupt.
var errTick = errors.New("nothing came in time")

// tick makes the next wait end after d if nothing can be read before.
func (w *fdWaiter) tick(d time.Duration) error {
	err := w.file.SetReadDeadline(time.Now().Add(d))
	if err != nil && w.closed.Load() {
		return net.ErrClosed
	}
	return err
}

// Interrupt ends the current wait and each later one, until resume.
func (w *fdWaiter) Interrupt() { _ = w.file.SetReadDeadline(time.Unix(1, 0)) }

// resume clears an Interrupt. After resume, check again the condition that the interrupt announced.
func (w *fdWaiter) resume() { _ = w.file.SetReadDeadline(time.Time{}) }

// close wakes the waiter. It returns when no read is in progress.
func (w *fdWaiter) close() error {
	w.closed.Store(true)
	return w.file.Close()
}
