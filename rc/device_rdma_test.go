//go:build rdma

package rc

import (
	"os"
	"testing"
)

// testDevice returns the name of the device under test, from the environment; make test-rxe sets it.
func testDevice(t testing.TB) string {
	name := os.Getenv("RDMA_TEST_DEVICE")
	if name == "" {
		t.Fatal("RDMA_TEST_DEVICE is not set; make test-rxe sets it")
	}
	return name
}
