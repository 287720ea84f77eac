// The system calls for many datagrams at once. Like package net, they do not block; the
// runtime's poller calls again when the socket is ready. They go past the scheduler: see
// monitor_linux.go.

package link

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// systemCalls are the calls that tests replace by failing ones.
type systemCalls struct {
	sendmmsg, recvmmsg func(fd uintptr, m []unix.Mmsghdr) (int, unix.Errno)
}

var realCalls = systemCalls{sendmmsg: sendmmsg, recvmmsg: recvmmsg}

// For a single datagram, sendmmsg and recvmmsg use sendmsg and recvmsg, which cost less.

func sendmmsg(fd uintptr, m []unix.Mmsghdr) (int, unix.Errno) {
	if len(m) == 1 {
		return single(&m[0], unix.SYS_SENDMSG, fd)
	}
	monitor.keep()
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(unsafe.SliceData(m))), uintptr(len(m)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func recvmmsg(fd uintptr, m []unix.Mmsghdr) (int, unix.Errno) {
	if len(m) == 1 {
		return single(&m[0], unix.SYS_RECVMSG, fd)
	}
	monitor.keep()
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(unsafe.SliceData(m))), uintptr(len(m)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func single(m *unix.Mmsghdr, call, fd uintptr) (int, unix.Errno) {
	monitor.keep()
	n, _, errno := unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(&m.Hdr)), unix.MSG_DONTWAIT)
	if errno != 0 {
		return 0, errno
	}
	m.Len = uint32(n)
	return 1, 0
}

// message is the memory that a msghdr points to.
type message struct {
	iov     unix.Iovec
	name    unix.RawSockaddrInet6 // or RawSockaddrInet4, which is shorter
	control [controlSpace]byte
}

// link makes h point to m.
func (m *message) link(h *unix.Msghdr) {
	h.Name = (*byte)(unsafe.Pointer(&m.name))
	h.Iov = &m.iov
	h.SetIovlen(1)
	h.Control = &m.control[0]
}

// setData sets the buffer to send or to receive into.
func (m *message) setData(b []byte) {
	m.iov.Base = &b[0]
	m.iov.SetLen(len(b))
}

// setName sets the address and returns its length.
func (m *message) setName(a netip.AddrPort, scope uint32) uint32 {
	if a.Addr().Is4() {
		sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&m.name))
		*sa = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: swapPort(a.Port()), Addr: a.Addr().As4()}
		return unix.SizeofSockaddrInet4
	}
	m.name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: swapPort(a.Port()), Addr: a.Addr().As16(), Scope_id: scope}
	return unix.SizeofSockaddrInet6
}

// address returns the address. A link-local address gets the zone.
func (m *message) address(zone string) netip.AddrPort {
	if m.name.Family == unix.AF_INET {
		sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&m.name))
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), swapPort(sa.Port))
	}
	a := netip.AddrFrom16(m.name.Addr)
	if zone != "" && a.IsLinkLocalUnicast() {
		a = a.WithZone(zone)
	}
	return netip.AddrPortFrom(a, swapPort(m.name.Port))
}

// swapPort converts a port from or to network byte order.
func swapPort(p uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(&p))
	return uint16(b[0])<<8 | uint16(b[1])
}
