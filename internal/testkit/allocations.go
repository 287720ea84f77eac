package testkit

import (
	"runtime"
	"testing"
)

// rounds is how often Allocations counts at most.
const rounds = 50

// Allocations returns the number of allocations per call of f: the least of many rounds of calls each. It
// counts the allocations of all goroutines. What f itself needs shows in every round; what the runtime or
// a goroutine of another test allocates now and then does not. It returns early after a round without
// allocations.
//
// For a function that only its own goroutine runs, use testing.AllocsPerRun.
func Allocations(tb testing.TB, calls int, f func()) float64 {
	tb.Helper()
	f() // what only the first call allocates is not counted
	least := uint64(0)
	for round := range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			f()
		}
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; round == 0 || n < least {
			least = n
		}
		if least == 0 || tb.Failed() {
			break
		}
	}
	return float64(least) / float64(calls)
}
