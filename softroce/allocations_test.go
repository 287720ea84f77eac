//go:build !race

// What a whole message allocates. With the race detector, waits allocate more on a busy host.

package softroce_test

import (
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestSteadyStateAllocatesNothing counts the allocations of whole messages. It includes both
// ends and all goroutines of the device.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		for _, size := range []int{8, 64 << 10} {
			s := newStream(t, x, y, op, size)
			s.run(t, 200)
			if n := testkit.Allocations(t, 20, func() { s.run(t, 10) }); n > 0 {
				t.Errorf("%v of %d bytes: 10 messages make %v allocations", op, size, n)
			}
		}
	}
}
