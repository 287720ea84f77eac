//go:build !linux

package oob

import "net"

// limitUnacknowledged does nothing: only Linux has such a limit.
func limitUnacknowledged(*net.TCPConn) {}
