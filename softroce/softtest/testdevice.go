// Package softtest has the device under test: soft0, or with the build tag rdma the device in the
// variable RDMA_TEST_DEVICE, which make test-rxe sets.
package softtest

import (
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

// Open opens the device. The end of the test closes it.
func Open(t testing.TB) *verbs.Device {
	t.Helper()
	dev, err := verbs.Open(Name(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}
