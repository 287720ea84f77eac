//go:build !rdma && !linux

package e2e

import "testing"

// twoHosts needs network namespaces, which only Linux has.
func twoHosts(t *testing.T) faultPlace {
	t.Skip("network namespaces are Linux's")
	return faultPlace{}
}
