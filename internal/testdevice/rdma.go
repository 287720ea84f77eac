//go:build rdma

package testdevice

import (
	"os"
	"testing"
)

func name(t testing.TB) string {
	t.Helper()
	name := os.Getenv("RDMA_TEST_DEVICE")
	if name == "" {
		t.Fatal("RDMA_TEST_DEVICE is not set; make test-rxe sets it")
	}
	return name
}
