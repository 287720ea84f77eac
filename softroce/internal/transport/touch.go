//go:build !race

// How the device touches the program's memory. touch_race.go is for the race detector.

package transport

import "sync/atomic"

// move copies as many bytes as src and dst both have.
func move(dst, src []byte) { copy(dst, src) }

// store puts v into word.
func store(word *uint64, v uint64) { atomic.StoreUint64(word, v) }

// fetchAdd adds to word and returns what it held.
func fetchAdd(word *uint64, add uint64) (found uint64) { return atomic.AddUint64(word, add) - add }

// compareSwap puts swap into word if it holds compare, and returns what it held.
func compareSwap(word *uint64, compare, swap uint64) (found uint64) {
	for {
		if found := atomic.LoadUint64(word); found != compare {
			return found
		}
		if atomic.CompareAndSwapUint64(word, compare, swap) {
			return compare
		}
	}
}
