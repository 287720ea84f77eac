package testkit

import (
	stderrors "errors"
	"net"
	"syscall"
	"testing"
)

// IPv6Loopback waits until no other test of this host has a device of ::1, IPv6's only loopback address, and
// keeps it for this test. It returns false if the host has no ::1, as Docker's containers by default.
//
// The test that listens at TCP port 4791 of ::1 owns the address, so the address is free when its process ends.
func IPv6Loopback(tb testing.TB) bool {
	tb.Helper()
	var l net.Listener
	var err error
	Until(tb, "end of another test that has ::1", func() bool {
		l, err = new(net.ListenConfig).Listen(tb.Context(), "tcp6", "[::1]:4791")
		return !stderrors.Is(err, syscall.EADDRINUSE)
	})
	if err != nil {
		return false
	}
	tb.Cleanup(func() { l.Close() })
	return true
}
