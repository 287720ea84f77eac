//go:build !rdma

package mistake

import "testing"

// onSoft0 says that the tests run on the software device.
const onSoft0 = true

// testDevice is the device that the tests run on.
func testDevice(*testing.T) string { return "soft0" }
