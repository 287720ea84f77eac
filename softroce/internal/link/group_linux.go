// This file is multicast on Linux. A socket that is bound to a group's address gets what is
// sent to the group, and with SO_REUSEADDR each process has one, in addition to the sockets that
// are bound to the interface's own addresses.

package link

import (
	"context"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/softroce/internal/udp"
)

// ipv6MulticastAll is IPV6_MULTICAST_ALL, which package unix does not have.
const ipv6MulticastAll = 29

// Join implements Link.
func (s *Socket) Join(group netip.Addr) (Link, error) {
	group = group.Unmap().WithZone("")
	if !group.IsMulticast() || group.Is4() != s.local.Addr().Is4() {
		return nil, &AddrError{Addr: group, Err: syscall.EINVAL, Hint: "a multicast address of the family of " + s.local.Addr().String()}
	}
	conn, err := s.listenGroup(group)
	if err != nil {
		return nil, &AddrError{Addr: group, Err: err}
	}
	g, err := s.receiveOnly(conn, group, Config{Limit: Batched, ReceiveBuffer: defaultReceiveBuffer})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// receiveOnly returns a Socket on the interface of s that does not send. It owns conn, which is bound to addr.
func (s *Socket) receiveOnly(conn *udp.Conn, addr netip.Addr, cfg Config) (*Socket, error) {
	g := newSocket(addr)
	g.conn, g.scope, g.mtu, g.system = conn, s.scope, s.mtu, s.system
	g.status.Interface = s.Status().Interface
	_, receive, err := g.options(cfg)
	if err != nil {
		g.conn.Close()
		return nil, err
	}
	g.receiveMode.Store(uint32(receive))
	return g, nil
}

// listenGroup binds a socket to a group's address, and joins the group on the interface of s.
// Package net would bind it to all addresses.
func (s *Socket) listenGroup(group netip.Addr) (_ *udp.Conn, err error) {
	var name unix.Sockaddr
	family := unix.AF_INET
	if group.Is4() {
		name = &unix.SockaddrInet4{Port: packet.Port, Addr: group.As4()}
	} else {
		family, name = unix.AF_INET6, &unix.SockaddrInet6{Port: packet.Port, Addr: group.As16(), ZoneId: s.scope}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	conn, err := udp.New(fd, true)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, os.NewSyscallError("setsockopt SO_REUSEADDR", err)
	}
	if err := unix.Bind(fd, name); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	if group.Is4() {
		// Without it, what comes by another interface that anybody joined on is received, too.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
		err = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(s.scope)})
	} else {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, ipv6MulticastAll, 0)
		err = unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: s.scope})
	}
	if err != nil {
		return nil, os.NewSyscallError("joining the group", err)
	}
	return conn, nil
}

// groupInterface makes the socket send to groups of IPv6 by an interface. To those of IPv4 a
// socket sends by the interface of its address.
func groupInterface(fd int, v6 bool, scope uint32) error {
	if !v6 {
		return nil
	}
	return os.NewSyscallError("setsockopt IPV6_MULTICAST_IF", unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, int(scope)))
}

// reachGroup says whether there is a way to a group.
func (s *Socket) reachGroup(group netip.Addr) error {
	d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.local.Addr(), 0)),
		ControlContext: func(_ context.Context, _, _ string, c syscall.RawConn) error {
			return onFD(c, func(fd int) error { return groupInterface(fd, group.Is6(), s.scope) })
		}}
	conn, err := d.Dial(network(group), netip.AddrPortFrom(group, packet.Port).String())
	if err != nil {
		return err
	}
	return conn.Close()
}
