//go:build !rdma

package softtest

import (
	"testing"

	_ "github.com/rawverbs/rawverbs/softroce" // soft0
)

// Soft reports whether the device under test is soft0.
const Soft = true

// Name returns the name of the device under test.
func Name(testing.TB) string { return "soft0" }

// Long marks a test that runs on an RDMA device only without -short.
func Long(testing.TB) {}
