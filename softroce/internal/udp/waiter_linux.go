// A waiter waits until a socket is ready for one thing: for reading or for writing.
//
// Its epoll descriptor watches the socket, and the runtime's poller watches the epoll descriptor.
// While the waiter is off, nothing that happens at the socket wakes a thread. Turning it on costs two system calls: the
// second one looks whether the socket became ready meanwhile. So the waiter for packets stays on from one wait to the next,
// until a read needs no wait.

package udp

import (
	"os"
	"sync"
	"syscall"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

type waiter struct {
	file  *os.File // the epoll descriptor
	raw   syscall.RawConn
	fd    int // the socket
	event unix.EpollEvent

	mu     sync.Mutex // one goroutine at a time waits; guards what follows
	f      func(fd uintptr) bool
	try    func(epoll uintptr) bool // the method attempt; stored because a method value allocates
	clear  func(epoll uintptr)      // the method turnOff, likewise
	on     bool
	waited bool // f returned false
	err    error
}

// newWaiter returns a waiter for events of a socket. It is off.
func newWaiter(fd int, events uint32) (*waiter, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // os.NewFile then gives it to the poller
		unix.Close(epoll)
		return nil, os.NewSyscallError("fcntl", err)
	}
	w := &waiter{file: os.NewFile(uintptr(epoll), "epoll"), fd: fd, event: unix.EpollEvent{Events: events}}
	w.try, w.clear = w.attempt, w.turnOff
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{}); err != nil {
		w.file.Close()
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		w.file.Close()
		return nil, errors.WithMessage(err, "the epoll descriptor")
	}
	return w, nil
}

// do calls f until it returns true, and waits in between. If it had to wait, it leaves the waiter on; otherwise, or after an
// error, the waiter is off.
func (w *waiter) do(f func(fd uintptr) bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.f, w.waited, w.err = f, false, nil
	err := w.raw.Read(w.try)
	if err != nil || !w.waited {
		w.off()
	}
	if err == nil {
		err = w.err
	}
	return err
}

// attempt calls f. If f cannot go on, attempt turns the waiter on and calls f again, because the
// socket may have become ready meanwhile. Turning it on reports that only once.
func (w *waiter) attempt(epoll uintptr) (done bool) {
	if w.f(uintptr(w.fd)) {
		return true
	}
	w.waited = true
	if w.on {
		return false
	}
	if w.err = w.set(epoll, &w.event); w.err != nil {
		return true
	}
	w.on = true
	return w.f(uintptr(w.fd))
}

// rest turns the waiter off, unless a goroutine is in do.
func (w *waiter) rest() {
	if w.mu.TryLock() {
		w.off()
		w.mu.Unlock()
	}
}

func (w *waiter) off() {
	if w.on {
		_ = w.raw.Control(w.clear) // closed: the waiter is not used again
	}
}

func (w *waiter) turnOff(epoll uintptr) { w.on = w.set(epoll, &unix.EpollEvent{}) != nil }

func (w *waiter) set(epoll uintptr, e *unix.EpollEvent) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(int(epoll), unix.EPOLL_CTL_MOD, w.fd, e))
}
