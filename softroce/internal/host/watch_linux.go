// Watch on Linux: netlink notifications about interfaces and addresses.

package host

import "golang.org/x/sys/unix"

// Watch reports whether the host's interfaces or addresses have changed. It has no
// goroutine: the kernel's notifications wait in a socket until Changed reads them. Watch
// is for one goroutine at a time.
type Watch struct {
	fd   int
	note [1]byte // the first byte of a notification; the kernel discards the rest
}

// NewWatch starts watching. If the system has no notifications, Changed always returns
// true.
func NewWatch() *Watch {
	w := &Watch{fd: -1}
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
	w.fd = fd
	return w
}

// Changed reports whether anything has changed since the last call. After Close it
// returns true.
func (w *Watch) Changed() bool {
	for changed := false; ; {
		switch _, err := unix.Read(w.fd, w.note[:]); err {
		case unix.EAGAIN:
			return changed
		case nil, unix.ENOBUFS: // a notification, or lost notifications
			changed = true
		case unix.EINTR:
		default:
			return true
		}
	}
}

// Close stops watching. Changed returns true after Close.
func (w *Watch) Close() {
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
		w.fd = -1
	}
}
