//go:build !rdma

// What other devices do differently.

package rc

import (
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// TestAWaitThatSleepsAllocatesNothing waits before anything has completed.
func TestAWaitThatSleepsAllocatesNothing(t *testing.T) {
	if allocs := waitAllocations(t, 0); allocs != 0 {
		t.Errorf("%v allocations for posting 8 requests and waiting for them", allocs)
	}
}

// TestAnEventOfTheLastQueuePairEndsTheWaits has a peer WRITE where it may not;
// rdma_rxe has no event for that.
func TestAnEventOfTheLastQueuePairEndsTheWaits(t *testing.T) {
	c, s := severalPair(t, 3, Config{}, Config{})
	wrong := c.writes(1)
	wrong[0].RKey++
	if err := c.QPs()[2].PostSend(wrong); err != nil {
		t.Fatal(err)
	}
	_, err := s.WaitSend(t.Context())
	var ae *AsyncError
	if !errors.As(err, &ae) || ae.Event.Type != verbs.EventQPAccessErr || ae.Event.QPN != s.QPs()[2].QPN() {
		t.Errorf("got %v, want IBV_EVENT_QP_ACCESS_ERR on QP %#x", err, s.QPs()[2].QPN())
	}
}
