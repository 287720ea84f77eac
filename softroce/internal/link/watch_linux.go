// This file notices that the host's interfaces or addresses have changed.

package link

import "golang.org/x/sys/unix"

// Watch says whether the host's interfaces or addresses have changed. Nothing runs
// meanwhile: the kernel's notes lie in a socket until somebody asks. Its methods are for one
// goroutine at a time.
type Watch struct {
	fd   int
	note [1]byte // of a note, whose rest the kernel throws away
}

// NewWatch begins to watch. Where the system has no such notes, Changed is always true.
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
	// Notes that nobody reads should not take memory; that some were lost says enough.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 0)
	w.fd = fd
	return w
}

// Changed says whether there was a change since it was called last.
func (w *Watch) Changed() bool {
	for changed := false; ; {
		switch _, err := unix.Read(w.fd, w.note[:]); err {
		case unix.EAGAIN:
			return changed
		case nil, unix.ENOBUFS: // a note, or lost ones
			changed = true
		case unix.EINTR:
		default:
			return true
		}
	}
}

// Close ends it; Changed is true from then on.
func (w *Watch) Close() {
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
		w.fd = -1
	}
}
