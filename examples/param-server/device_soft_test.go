//go:build !rdma

package main

import "testing"

// testDevice is the device that the tests run on, and the server's address there.
func testDevice(*testing.T) (device, address string) { return "soft0", "127.0.0.1" }
