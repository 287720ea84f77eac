// Watch on Linux: netlink notifications about interfaces and addresses.

package host

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Watch reports whether the host's interfaces or addresses have changed. It has no
// goroutine: the kernel's notifications lie in a socket until Changed reads them. Changed
// is for one goroutine at a time.
type Watch struct {
	socket  *os.File // nil if the system has no notifications
	raw     syscall.RawConn
	changed bool
	note    [1]byte            // the first byte of a notification; the kernel discards the rest
	read    func(fd uintptr)   // the method readAll; stored because a method value allocates
	exist   func(uintptr) bool // the function notified, likewise
}

// NewWatch starts watching. If the system has no notifications, Changed always returns
// true.
func NewWatch() *Watch {
	w := &Watch{exist: notified}
	w.read = w.readAll
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return w
	}
	groups := unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR}
	if err := unix.Bind(fd, &groups); err != nil {
		_ = unix.Close(fd)
		return w
	}
	// A minimal buffer saves memory. A lost notification (ENOBUFS) also means a change.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 0)
	w.socket = os.NewFile(uintptr(fd), "netlink")
	if w.raw, err = w.socket.SyscallConn(); err != nil {
		w.Close()
	}
	return w
}

// Changed reports whether anything has changed since the last call. After Close it
// returns true.
func (w *Watch) Changed() bool {
	w.changed = false
	return w.raw == nil || w.raw.Control(w.read) != nil || w.changed
}

// readAll reads all notifications.
func (w *Watch) readAll(fd uintptr) {
	for {
		switch _, err := unix.Read(int(fd), w.note[:]); err {
		case unix.EAGAIN:
			return
		case unix.EINTR:
		case nil, unix.ENOBUFS: // a notification, or lost notifications
			w.changed = true
		default:
			w.changed = true
			return
		}
	}
}

// Wait waits for a change, which the next call of Changed reports. It returns false after
// Close, and at once if the system has no notifications. The runtime's poller waits, so no
// thread does.
func (w *Watch) Wait() bool { return w.raw != nil && w.raw.Read(w.exist) == nil }

// notified reports whether there are notifications. It leaves them in the socket.
func notified(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}

// Close stops watching, and ends Wait. Changed returns true after Close.
func (w *Watch) Close() {
	if w.socket != nil {
		_ = w.socket.Close()
	}
}
