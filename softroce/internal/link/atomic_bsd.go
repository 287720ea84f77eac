//go:build darwin || freebsd

// IPv4 identifications on macOS and FreeBSD: socket options for DF and identification 0.

package link

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"
)

// identificationSysctl is on if datagrams with DF have identification 0, as RFC 6864
// allows. It is on by default.
const identificationSysctl = "net.inet.ip.rfc6864"

// neverFragment makes the kernel set DF (don't fragment). Call it before bind.
func neverFragment(fd int, v6 bool) error {
	if v6 {
		return os.NewSyscallError("setsockopt IPV6_DONTFRAG",
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1))
	}
	return os.NewSyscallError("setsockopt IP_DONTFRAG",
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_DONTFRAG, 1))
}

// testIdentification notes packets that RDMA devices of the kernel and of hardware drop. It reads the sysctl, because an
// unprivileged socket cannot see the identifications of its packets.
func (s *Socket) testIdentification() {
	value, err := unix.SysctlRaw(identificationSysctl)
	if err != nil {
		s.note("interop with kernel RDMA is unknown: sysctl %s: %v", identificationSysctl, err)
	} else if len(bytes.Trim(value, "\x00")) == 0 {
		s.note("interop with kernel RDMA is off: packets leave with an IPv4 identification other than 0; "+
			"try: sysctl -w %s=1, or an IPv6 address", identificationSysctl)
	}
}
