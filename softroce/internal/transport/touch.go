//go:build !race

// How the device accesses the program's memory. touch_race.go replaces this file under the
// race detector.

package transport

import "sync/atomic"

// move copies min(len(dst), len(src)) bytes.
func move(dst, src []byte) { copy(dst, src) }

// store writes v to word.
func store(word *uint64, v uint64) { atomic.StoreUint64(word, v) }

// fetchAdd adds to word and returns its old value.
func fetchAdd(word *uint64, add uint64) (found uint64) { return atomic.AddUint64(word, add) - add }

// compareSwap writes swap to word if word holds compare. It returns word's old value.
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
