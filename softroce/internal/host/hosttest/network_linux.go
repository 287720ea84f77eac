// Package hosttest gives tests a network of their own: it runs a test again in a new network namespace.
package hosttest

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// OwnNetwork runs the calling test again in a new namespace. In the namespace it returns
// true, after it has given loopback the address fe80::1. Outside it returns false; the test is
// done then.
func OwnNetwork(t testing.TB) bool {
	if !testkit.OwnNetwork(t) {
		return false
	}
	GiveIPv6(t, "lo", netip.MustParseAddr("fe80::1"))
	return true
}

// GiveIPv6 sets an interface up, adds addr and waits until addr can be used.
func GiveIPv6(t testing.TB, name string, addr netip.Addr) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	SetLink(t, name, true)
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	request := struct { // struct in6_ifreq
		addr   [16]byte
		prefix uint32
		index  int32
	}{addr.As16(), 64, int32(ifi.Index)}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFADDR, uintptr(unsafe.Pointer(&request))); errno != 0 {
		t.Fatalf("giving %s %v: %v", name, addr, errno)
	}
	if addr.IsLinkLocalUnicast() {
		addr = addr.WithZone(name)
	}
	at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0))
	testkit.Until(t, fmt.Sprintf("use of %v, which %s was given", addr, name), func() bool {
		var c *net.UDPConn
		if c, err = net.ListenUDP("udp6", at); err != nil { // EADDRNOTAVAIL until duplicate address detection is done
			return false
		}
		c.Close()
		return true
	}, func() string { return err.Error() })
}

// SetLink sets an interface up or down. An interface that goes down loses its IPv6 addresses.
func SetLink(t testing.TB, name string, up bool) {
	flags := uint16(0)
	if up {
		flags = unix.IFF_UP | unix.IFF_RUNNING
	}
	ask(t, unix.SIOCSIFFLAGS, name, func(request *unix.Ifreq) error {
		request.SetUint16(flags)
		return nil
	})
}

// ask makes a request about an interface.
func ask(t testing.TB, what uint, name string, fill func(*unix.Ifreq) error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(name)
	if err == nil {
		err = fill(request)
	}
	if err == nil {
		err = unix.IoctlIfreq(fd, what, request)
	}
	if err != nil {
		t.Fatalf("request %#x to %s: %v", what, name, err)
	}
}
