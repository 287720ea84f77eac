//go:build rdma

package misuse_test

import (
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

// openSoft0WithoutImport needs no other program: with the tag rdma, this test binary does not
// import the software device.
func openSoft0WithoutImport(*testing.T, string) error { return errOf(verbs.Open("soft0")) }
