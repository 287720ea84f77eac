//go:build !linux

package link

import "testing"

// ownNetwork works only on Linux.
func ownNetwork(t *testing.T) bool {
	t.Fatal("no interface has a link-local address; try: ifconfig INTERFACE up (loopback has one on macOS)")
	return false
}
