//go:build !rdma

// A test of the software device, which cannot be opened beside rdma_rxe.

package doctor

import (
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestSoft0 runs the job on loopback for real. The software device needs no kernel device.
func TestSoft0(t *testing.T) {
	if _, err := (system{}).Loopback(testkit.Context(t), "soft0", -1); err != nil {
		t.Error(err)
	}
}
