// Socket options of Linux.

package link

import (
	"net"
	"os"
	"unsafe"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/softroce/internal/udp"
)

// udpConn is a UDP socket.
type udpConn = *udp.Conn

// connOf returns a connection in place of c, so that a packet wakes a thread of Go only if a goroutine waits for it, or waited last.
func connOf(c *net.UDPConn, receives bool) (conn udpConn, err error) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	err = onFD(raw, func(fd int) error {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return errors.WithMessage(err, "duplicating the socket")
		}
		conn, err = udp.New(dup, receives)
		return err
	})
	return conn, err
}

// sendOnly sets the options of a socket that only sends.
func (s *Socket) sendOnly(c udpConn) {
	_ = onFD(c, func(fd int) error {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1) // the least that the system allows
		return groupInterface(fd, s.local.Addr().Is6(), s.scope)       // s has noted the error
	})
}

// Detach takes the socket off the runtime's poller, for threads of C that wait for packets themselves. From
// then on Receive does not wait: it returns ErrInterrupted if no packet has arrived. Detach returns
// the descriptor, which is valid until Close and becomes readable when packets arrive. No other
// method may run meanwhile.
func (s *Socket) Detach() (fd int) { return s.conn.Detach() }

// neverFragment makes the kernel set DF, and therefore identification 0. The kernel then
// ignores the path MTU that it has learned. Call neverFragment before bind.
func neverFragment(fd int, v6 bool) error {
	if v6 {
		return os.NewSyscallError("setsockopt IPV6_MTU_DISCOVER",
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE))
	}
	return os.NewSyscallError("setsockopt IP_MTU_DISCOVER",
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE))
}

// options sets the other socket options and returns the best supported modes.
func (s *Socket) options(cfg Config) (send, receive Mode, err error) {
	err = onFD(s.conn, func(fd int) (err error) {
		send, receive, err = s.optionsOf(fd, cfg)
		return err
	})
	return send, receive, errors.WithMessage(err, "softroce/link")
}

func (s *Socket) optionsOf(fd int, cfg Config) (send, receive Mode, err error) {
	if err := groupInterface(fd, s.local.Addr().Is6(), s.scope); err != nil {
		s.note("no multicast over IPv6 (%v)", err)
	}
	if s.local.Addr().Is6() {
		// rdma_rxe sends zero checksums.
		if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, 1); err != nil {
			s.note("the system does not accept zero UDP checksums over IPv6 (%v): packets of rdma_rxe do not arrive", err)
		}
		// A UD receive reports these values. If the options fail, it reports 0.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
	} else {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, cfg.ReceiveBuffer); err != nil {
		// Unprivileged: no more than net.core.rmem_max is granted.
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, cfg.ReceiveBuffer); err != nil {
			return 0, 0, os.NewSyscallError("setsockopt SO_RCVBUF", err)
		}
	}
	granted, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return 0, 0, os.NewSyscallError("getsockopt SO_RCVBUF", err)
	}
	s.status.ReceiveBuffer = granted / 2 // the kernel uses the other half itself

	send, receive = cfg.Limit, cfg.Limit
	// An empty call tests whether the system call exists. Some sandboxes lack it.
	if send != Plain {
		if _, errno := s.system.sendmmsg(uintptr(fd), nil); errno != 0 {
			s.note("no sendmmsg (%v): sending one datagram per call", errno)
			send = Plain
		}
	}
	if receive != Plain {
		if _, errno := s.system.recvmmsg(uintptr(fd), nil); errno != 0 {
			s.note("no recvmmsg (%v): receiving one datagram per call", errno)
			receive = Plain
		}
	}
	if send == Segmented {
		// 0 means no GSO by default. Bursts request GSO with a control message.
		if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, 0); err != nil {
			s.note("no GSO (%v): sending with sendmmsg", err)
			send = Batched
		}
	}
	if receive == Segmented {
		if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1); err != nil {
			s.note("no GRO (%v): receiving with recvmmsg", err)
			receive = Batched
		}
	}
	return send, receive, nil
}

// overflow returns the number of datagrams that the kernel dropped because the receive
// buffer was full. After Close it returns 0.
func (s *Socket) overflow() uint64 {
	var info [unix.SK_MEMINFO_VARS]uint32
	_ = s.conn.Control(func(fd uintptr) {
		n := uint32(unsafe.Sizeof(info))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&n)), 0)
		if errno != 0 {
			info[unix.SK_MEMINFO_DROPS] = 0
		}
	})
	return uint64(info[unix.SK_MEMINFO_DROPS])
}
