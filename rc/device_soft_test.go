//go:build !rdma

package rc

import (
	"testing"

	_ "github.com/rawverbs/rawverbs/softroce"
)

// testDevice is the device that the tests run on: the software device.
func testDevice(testing.TB) string { return "soft0" }
