package testkit

import (
	"runtime"
	"testing"
)

// rounds is how often Allocations counts at most.
const rounds = 50

// Allocations returns the whole number of allocations per call of f, as testing.AllocsPerRun: the least of many
// rounds of calls each. It counts the allocations of all goroutines. What f itself needs shows in each call; what
// the runtime allocates now and then for a goroutine that waits, or a goroutine of another test, does not. It
// returns early after a round with less than one per call.
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
		if least < uint64(calls) || tb.Failed() {
			break
		}
	}
	return float64(least / uint64(calls))
}
