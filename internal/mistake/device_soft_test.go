//go:build !rdma

package mistake

import "testing"

// testDevice is the device that the tests run on.
func testDevice(*testing.T) string { return "soft0" }
