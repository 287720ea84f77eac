//go:build linux && cgo

// Package ccall calls short C functions for less than cgo does.
//
// cgo takes each call for one that may block. So it tells the scheduler before and after,
// and where the process was idle it wakes the runtime's monitor thread, which then looks
// every 20 µs whether the call has come to block: more work than a poll of a completion
// queue, and for a program that sleeps between two batches it comes with every batch.
//
// On amd64 a call from here is a plain call: on a C stack of its own, since C does not
// look how much of a goroutine's stack is left, and with the scheduler not told. Until
// it returns the goroutine keeps its processor, and the garbage collector waits for it, as
// with a loop of Go code without calls. Elsewhere, under the race detector and the
// sanitizers, and with the build tag cgocalls, it goes through cgo.
package ccall

import "unsafe"

// Call calls fn, a C function of the type
//
//	int64_t fn(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, void *p)
//
// that does not block, does not call Go, and is done in some microseconds. p may be nil or
// Go memory that holds no pointers; fn must not keep it.
func Call(fn unsafe.Pointer, a, b, c, d uintptr, p unsafe.Pointer) int64 {
	return call(fn, a, b, c, d, p)
}
