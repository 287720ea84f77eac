//go:build rdma

package main

import (
	"os"
	"testing"
)

// manyRounds last long enough for something to happen meanwhile, and not too long
// in an emulated machine.
const manyRounds = "300"

// testDevice is the device that the tests run on: the one that make test-rxe, or
// the owner of RDMA hardware, names. The server's address is this host's own.
func testDevice(t *testing.T) (device, address string) {
	device = os.Getenv("RDMA_TEST_DEVICE")
	if device == "" {
		t.Fatal("RDMA_TEST_DEVICE is not set; make test-rxe sets it")
	}
	return device, "127.0.0.1"
}
