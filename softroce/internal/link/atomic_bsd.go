//go:build darwin || freebsd

// IPv4 identifications on macOS and FreeBSD: socket options for DF and identification 0.

package link

import (
	"fmt"
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

// testIdentification reads the sysctl, because an unprivileged socket cannot see the
// identifications of its packets.
func (s *Socket) testIdentification() {
	value, err := unix.SysctlRaw(identificationSysctl)
	if err != nil {
		s.interop(InteropUnknown, fmt.Sprintf("sysctl %s: %v", identificationSysctl, err))
		return
	}
	for _, b := range value {
		if b != 0 {
			s.interop(InteropOn, "sysctl "+identificationSysctl+" is on")
			return
		}
	}
	s.interop(InteropOff, fmt.Sprintf("packets leave with an IPv4 identification other than 0; "+
		"try: sysctl -w %s=1, or an IPv6 address", identificationSysctl))
}
