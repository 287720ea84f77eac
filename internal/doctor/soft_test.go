//go:build !rdma

// A test of the software device, which cannot be opened beside rdma_rxe.

package doctor

import (
	"context"
	"testing"
	"time"
)

// TestSoft0 runs the job on loopback for real. The software device needs no kernel device.
func TestSoft0(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := (system{}).Loopback(ctx, "soft0", -1); err != nil {
		t.Error(err)
	}
}
