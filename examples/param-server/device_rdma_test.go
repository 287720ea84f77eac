//go:build rdma

package main

import (
	"os"
	"testing"
)

// manyRounds is enough rounds to interrupt a run, and few enough for an emulated machine.
const manyRounds = "300"

// testDevice returns the device under test, from the environment, and the server's address: an address
// of this host.
func testDevice(t *testing.T) (device, address string) {
	device = os.Getenv("RDMA_TEST_DEVICE")
	if device == "" {
		t.Fatal("RDMA_TEST_DEVICE is not set; make test-rxe sets it")
	}
	return device, "127.0.0.1"
}
