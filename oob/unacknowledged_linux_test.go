package oob

import (
	"net"
	"syscall"
	"testing"
)

// TestUnacknowledged: both ends limit how long a vanished host keeps them waiting for its acknowledgment.
func TestUnacknowledged(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := Dial(t.Context(), l.Addr().String(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	accepted, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	for name, c := range map[string]*Conn{"dialed": dialed, "accepted": accepted} {
		raw, err := c.nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var limit int
		if err := raw.Control(func(fd uintptr) { limit, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout) }); err != nil {
			t.Fatal(err)
		}
		if int64(limit) != unacknowledgedFor.Milliseconds() || err != nil {
			t.Errorf("%s: %d ms, %v", name, limit, err)
		}
	}
}
