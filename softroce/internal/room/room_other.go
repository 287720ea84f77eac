//go:build !linux

package room

import "net/netip"

// Receivers knows no receiver: only Linux says how much waits at one.
type Receivers struct{}

// New returns Receivers.
func New(buffer, sockets int) *Receivers { return new(Receivers) }

// Close does nothing.
func (*Receivers) Close() {}

// Full returns false.
func (*Receivers) Full(netip.Addr, int) bool { return false }

// Unread returns false.
func (*Receivers) Unread(netip.Addr) bool { return false }

// Sent does nothing.
func (*Receivers) Sent(netip.Addr) {}
