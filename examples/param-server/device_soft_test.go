//go:build !rdma

package main

import "testing"

// manyRounds last long enough for something to happen meanwhile.
const manyRounds = "3000"

// testDevice is the device that the tests run on, and the server's address there.
func testDevice(*testing.T) (device, address string) { return "soft0", "127.0.0.1" }
