// Tests of addresses and their errors.

package link

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
)

func TestAddressTaken(t *testing.T) {
	s := loopback(t, Config{})
	_, err := Open(s.Addr(), Config{})
	var ae *AddrError
	if !errors.As(err, &ae) || !errors.Is(err, syscall.EADDRINUSE) || ae.Addr != s.Addr() {
		t.Fatalf("%v", err)
	}
	for _, part := range []string{"UDP port 4791 of " + s.Addr().String(), "address already in use", "try: another address"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	for _, c := range []struct {
		addr netip.Addr
		hint string
	}{
		{netip.Addr{}, "one address of one interface"},
		{netip.IPv4Unspecified(), "one address of one interface"},
		{netip.MustParseAddr("ff02::1"), "one address of one interface"},
		{netip.MustParseAddr("fe80::1"), "needs its interface"},
		{netip.MustParseAddr("203.0.113.7"), "an address that this host has"},
	} {
		s, err := Open(c.addr, Config{})
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, syscall.EADDRNOTAVAIL) || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%v: %v", c.addr, err)
		}
	}
}

func TestOpenLoopback(t *testing.T) {
	seen := make(map[netip.Addr]bool)
	for range 4 {
		s := loopback(t, Config{})
		if !s.Addr().IsLoopback() || !s.Addr().Is4() || seen[s.Addr()] {
			t.Errorf("%v", s.Addr())
		}
		if st := s.Status(); s.MTU() != 4096 || st.ReceiveBuffer == 0 || st.Interface == "" {
			t.Errorf("%+v", st)
		}
		seen[s.Addr()] = true
	}
}
