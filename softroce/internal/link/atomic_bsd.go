//go:build darwin || freebsd

// This file is how macOS and FreeBSD are made to send DF and identification 0.

package link

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// identificationSysctl tells whether datagrams with DF have identification 0, as
// RFC 6864 allows. It is on by default.
const identificationSysctl = "net.inet.ip.rfc6864"

// neverFragment makes the kernel set DF. It must be called before bind.
func neverFragment(fd int, v6 bool) error {
	if v6 {
		return os.NewSyscallError("setsockopt IPV6_DONTFRAG",
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1))
	}
	return os.NewSyscallError("setsockopt IP_DONTFRAG",
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_DONTFRAG, 1))
}

// testIdentification asks the system, since an unprivileged socket cannot look.
func (s *Socket) testIdentification() {
	value, err := unix.SysctlRaw(identificationSysctl)
	if err != nil {
		s.interop(InteropUnknown, fmt.Sprintf("sysctl %s: %v", identificationSysctl, err))
		return
	}
	for _, b := range value {
		if b != 0 {
			s.interop(InteropOn, "by the system's word: "+identificationSysctl+" is on")
			return
		}
	}
	s.interop(InteropOff, fmt.Sprintf("packets leave with an IPv4 identification other than 0; "+
		"try: sysctl -w %s=1, or an IPv6 address", identificationSysctl))
}
