package bench

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// init makes the memory profile exact, for allocated.
func init() { runtime.MemProfileRate = 1 }

// allocated returns how many objects runs have allocated so far: the loops of this package and what they
// call, without the device. The goroutines of the device and of the runtime allocate at times of their own.
func allocated() (objects int64) {
	runtime.GC() // the profile lags behind by two collections
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 100)
	for n, ok := runtime.MemProfile(records, true); ; n, ok = runtime.MemProfile(records, true) {
		if ok {
			records = records[:n]
			break
		}
		records = make([]runtime.MemProfileRecord, n+100)
	}
	for i := range records {
		if ofRun(records[i].Stack()) {
			objects += records[i].AllocObjects
		}
	}
	return objects
}

// ofRun reports whether a method of Run is on a stack, and no function of the device is.
func ofRun(stack []uintptr) (run bool) {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "/softroce.") || strings.Contains(frame.Function, "/softroce/") {
			return false
		}
		run = run || strings.Contains(frame.Function, "/bench.(*Run).")
		if !more {
			return run
		}
	}
}

// TestAllocations checks that the number of allocations does not grow with the number of
// messages.
func TestAllocations(t *testing.T) {
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
			if a == 0 || b > a+(many-few)/100 {
				t.Errorf("%d allocations for %d messages, and %d for %d", a, few, b, many)
			}
		})
	}
}
