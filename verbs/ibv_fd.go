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
	closed atomic.Bool // a RawConn's own error for it is not os.ErrClosed
}

// newFDWaiter makes fd non-blocking and watches it.
func newFDWaiter(fd int, name string) (*fdWaiter, error) {
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
	return &fdWaiter{file: file, raw: raw}, nil
}

// wait calls read whenever there may be something, until it answers anything but
// EAGAIN, and returns that; net.ErrClosed after close.
func (w *fdWaiter) wait(read func() syscall.Errno) error {
	var errno syscall.Errno
	err := w.raw.Read(func(uintptr) bool {
		for errno = read(); errno == syscall.EINTR; {
			errno = read()
		}
		return errno != syscall.EAGAIN
	})
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errTick
	case err != nil && w.closed.Load():
		return net.ErrClosed
	case err != nil:
		return err
	case errno != 0:
		return errno
	}
	return nil
}

// errTick is what wait answers when the time that tick set has come.
var errTick = errors.New("nothing came in time")

// tick makes the next wait end after d if nothing came.
func (w *fdWaiter) tick(d time.Duration) error {
	err := w.file.SetReadDeadline(time.Now().Add(d))
	if err != nil && w.closed.Load() {
		return net.ErrClosed
	}
	return err
}

// close wakes the waiter. It returns once no read is under way.
func (w *fdWaiter) close() error {
	w.closed.Store(true)
	return w.file.Close()
}
