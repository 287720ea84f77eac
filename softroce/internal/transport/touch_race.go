//go:build race

// How the device accesses the program's memory under the race detector. Packets order the
// accesses of the program and of the device, but the detector does not know that. If both ends
// are in one process, it would report correct programs. So the device's accesses are hidden
// from the detector, as those of hardware are.

package transport

import (
	"encoding/binary"
	"sync"
	"unsafe"
)

// move copies min(len(dst), len(src)) bytes. It writes each aligned word of dst with one store.
//
//go:norace
func move(dst, src []byte) {
	n, i := min(len(dst), len(src)), 0
	if n == 0 {
		return
	}
	aligned := int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) % 8)
	for ; i < min(aligned, n); i++ {
		dst[i] = src[i]
	}
	for ; i+8 <= n; i += 8 {
		binary.NativeEndian.PutUint64(dst[i:], binary.NativeEndian.Uint64(src[i:]))
	}
	for ; i < n; i++ {
		dst[i] = src[i]
	}
}

// atomics serializes the atomics, because the detector would see operations of sync/atomic. The
// atomics need to be atomic among queue pairs only (AtomicHCA).
var atomics sync.Mutex

// store writes v to word.
//
//go:norace
func store(word *uint64, v uint64) {
	atomics.Lock()
	*word = v
	atomics.Unlock()
}

// fetchAdd adds to word and returns its old value.
//
//go:norace
func fetchAdd(word *uint64, add uint64) (found uint64) {
	atomics.Lock()
	found = *word
	*word = found + add
	atomics.Unlock()
	return found
}

// compareSwap writes swap to word if word holds compare. It returns word's old value.
//
//go:norace
func compareSwap(word *uint64, compare, swap uint64) (found uint64) {
	atomics.Lock()
	if found = *word; found == compare {
		*word = swap
	}
	atomics.Unlock()
	return found
}
