//go:build !linux

// This file is what other systems than Linux have in place of multicast.

package link

import (
	"net/netip"
	"syscall"
)

// Join implements Link: EOPNOTSUPP.
func (s *Socket) Join(group netip.Addr) (Link, error) {
	return nil, &AddrError{Addr: group, Err: syscall.EOPNOTSUPP, Hint: "Linux: soft devices have no multicast on other systems"}
}

func (s *Socket) reachGroup(netip.Addr) error { return syscall.EOPNOTSUPP }
