//go:build !rdma

package rc

import (
	"testing"

	_ "github.com/rawverbs/rawverbs/softroce"
)

// testDevice returns the name of the device under test: the software device.
func testDevice(testing.TB) string { return "soft0" }
