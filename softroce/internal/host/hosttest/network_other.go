//go:build !linux

package hosttest

import "testing"

// OwnNetwork works only on Linux.
func OwnNetwork(t testing.TB) bool {
	t.Fatal("no interface has a link-local address; try: ifconfig INTERFACE up (loopback has one on macOS)")
	return false
}
