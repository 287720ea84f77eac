//go:build rdma

// The table on the device in RDMA_TEST_DEVICE: rxe0 in the virtual machine (make test-rxe), or
// hardware.

package verbstest

import (
	"os"
	"testing"
)

func TestDevice(t *testing.T) {
	name := os.Getenv("RDMA_TEST_DEVICE")
	if name == "" {
		t.Fatal("RDMA_TEST_DEVICE is not set; make test-rxe sets it")
	}
	Run(t, name, Quirks(t, name))
}
