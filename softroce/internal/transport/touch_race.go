//go:build race

// How the device touches the program's memory, under the race detector. What orders a
// program's accesses and the device's are packets, which the detector cannot know of: it
// would report programs that are right when both ends are in one process. So it does not
// see the device, as it does not see hardware.

package transport

import (
	"encoding/binary"
	"sync"
	"unsafe"
)

// move copies as many bytes as src and dst both have; those of an aligned word of dst
// at once.
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

// atomics makes one atomic at a time: the detector sees those of sync/atomic. Among
// queue pairs is as far as the device's reach (AtomicHCA).
var atomics sync.Mutex

// store puts v into word.
//
//go:norace
func store(word *uint64, v uint64) {
	atomics.Lock()
	*word = v
	atomics.Unlock()
}

// fetchAdd adds to word and returns what it held.
//
//go:norace
func fetchAdd(word *uint64, add uint64) (found uint64) {
	atomics.Lock()
	found = *word
	*word = found + add
	atomics.Unlock()
	return found
}

// compareSwap puts swap into word if it holds compare, and returns what it held.
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
