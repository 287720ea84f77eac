package measure

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// allocated returns how many objects runs have allocated so far.
func allocated() int64 { return testkit.Allocated("/measure.(*Run).") }

// TestAllocations checks that the number of allocations does not grow with the number of
// messages.
func TestAllocations(t *testing.T) {
	defer func(before int) { runtime.MemProfileRate = before }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1 // for testkit.Allocated
	const few, many = 50, 250
	for _, p := range []Plan{
		plan(Send, false, nil), plan(Write, false, nil), plan(Read, false, nil), plan(Send, false, func(p *Plan) { p.Both = true }),
		plan(Send, true, nil), plan(Write, true, nil), plan(Read, true, nil), plan(Read, true, func(p *Plan) { p.Events = true }),
	} {
		t.Run(fmt.Sprintf("%v, latency %v, both %v, events %v", p.Op, p.Latency, p.Both, p.Events), func(t *testing.T) {
			p.Size = 64
			allocations := func(iterations int) int64 {
				p.Iterations = iterations
				e := connect(t, p)
				if _, _, err := e.measure(t, p.Size); err != nil { // the first run may allocate
					t.Fatal(err)
				}
				before := allocated()
				if _, _, err := e.measure(t, p.Size); err != nil {
					t.Fatal(err)
				}
				return allocated() - before
			}
			a, b := allocations(few), allocations(many)
			t.Logf("%d allocations for %d messages, and %d for %d", a, few, b, many)
			// On a busy host a run waits now and then, and a wait may allocate. Messages that allocate add 200 or more.
			if a == 0 || b > a+(many-few)/10 {
				t.Errorf("%d allocations for %d messages, and %d for %d", a, few, b, many)
			}
		})
	}
}
