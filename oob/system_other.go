//go:build !linux

package oob

import "net"

// hangup always returns nil: on this system only the reader notices that the peer closed.
func hangup(uintptr) error { return nil }

// limitUnacknowledged does nothing: only Linux has such a limit.
func limitUnacknowledged(*net.TCPConn) {}
