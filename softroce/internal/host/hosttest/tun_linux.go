package hosttest

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// NewTun makes an interface with two addresses, for the rest of the test. An IP packet that is written to the
// result arrives at the interface.
func NewTun(t testing.TB, name string, v4, v6 netip.Addr) *os.File {
	const device = "/dev/net/tun"
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if os.IsNotExist(err) { // in some containers
		made := filepath.Join(t.TempDir(), "tun")
		if err = unix.Mknod(made, unix.S_IFCHR|0o600, int(unix.Mkdev(10, 200))); err == nil {
			fd, err = unix.Open(made, unix.O_RDWR|unix.O_CLOEXEC, 0)
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", device, err)
	}
	wire := os.NewFile(uintptr(fd), device)
	t.Cleanup(func() { wire.Close() })
	request, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		t.Fatalf("making %s: %v", name, err)
	}
	GiveIPv4(t, name, v4)
	GiveIPv6(t, name, v6)
	return wire
}

// GiveIPv4 sets an interface up, and makes addr its IPv4 address, with the prefix of its class. 0.0.0.0 removes the address.
func GiveIPv4(t testing.TB, name string, addr netip.Addr) {
	ask(t, unix.SIOCSIFADDR, name, func(request *unix.Ifreq) error { return request.SetInet4Addr(addr.AsSlice()) })
	SetLink(t, name, true)
}
