//go:build !rdma

package main

import "testing"

// manyRounds is enough rounds to interrupt a run.
const manyRounds = "3000"

// testDevice returns the device under test and the server's address.
func testDevice(*testing.T) (device, address string) { return "soft0", "127.0.0.1" }
