//go:build rdma

package softtest

import (
	"os"
	"testing"
)

// Soft reports whether the device under test is soft0.
const Soft = false

// Name returns the name of the device under test.
func Name(t testing.TB) string {
	t.Helper()
	name := os.Getenv("RDMA_TEST_DEVICE")
	if name == "" {
		t.Fatal("RDMA_TEST_DEVICE is not set; make test-rxe sets it")
	}
	return name
}

// Long skips the test with -short, which make test gives: there the test runs on soft0 only.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("with -short this test runs on soft0 only; try: make test-rxe WHOLE=1")
	}
}
