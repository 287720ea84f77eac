//go:build rdma

package mistake

import (
	"os"
	"testing"
)

// onSoft0 says that the tests run on the software device.
const onSoft0 = false

// testDevice is the device that the tests run on: the one that make test-rxe, or the owner
// of RDMA hardware, names.
func testDevice(t *testing.T) string {
	name := os.Getenv("RDMA_TEST_DEVICE")
	if name == "" {
		t.Fatal("RDMA_TEST_DEVICE is not set; make test-rxe sets it")
	}
	return name
}
