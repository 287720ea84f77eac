//go:build !linux

package link

import "testing"

// ownNetwork is Linux's.
func ownNetwork(t *testing.T) bool {
	t.Fatal("no interface has a link-local address; try: ifconfig INTERFACE up (loopback has one on macOS)")
	return false
}
