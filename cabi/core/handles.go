//go:build linux && cgo

package main

// #include "../core.h"
import "C"

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// handles gives objects numbers that C can hold. get takes no lock, because each post needs it.
type handles[T any] struct {
	mu    sync.Mutex
	items atomic.Pointer[[]atomic.Pointer[T]] // by number; grows by replacement
	free  []C.rv_handle
	used  int // numbers given out at least once
}

// add returns a number for the object, at least 1.
func (h *handles[T]) add(object *T) C.rv_handle {
	h.mu.Lock()
	defer h.mu.Unlock()
	var n C.rv_handle
	if last := len(h.free) - 1; last >= 0 {
		n, h.free = h.free[last], h.free[:last]
	} else {
		h.used++
		n = C.rv_handle(h.used)
	}
	items := h.items.Load()
	if items == nil || int(n) >= len(*items) {
		items = grown(items)
		h.items.Store(items)
	}
	(*items)[n].Store(object)
	return n
}

// grown returns a longer copy.
func grown[T any](old *[]atomic.Pointer[T]) *[]atomic.Pointer[T] {
	const least = 64
	if old == nil {
		items := make([]atomic.Pointer[T], least)
		return &items
	}
	items := make([]atomic.Pointer[T], 2*len(*old))
	for i := range *old {
		items[i].Store((*old)[i].Load())
	}
	return &items
}

// get returns the object of a number, or nil if no object has the number. Most numbers are the shim's own
// and exist. Those that a program chooses may not, nor that of a region that was freed through an import.
func (h *handles[T]) get(n C.rv_handle) *T {
	items := h.items.Load()
	if items == nil || int(n) >= len(*items) {
		return nil
	}
	return (*items)[n].Load()
}

// of returns the numbers of a context's objects.
func (h *handles[T]) of(c *context) (numbers []C.rv_handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.items.Load() == nil {
		return nil
	}
	for n := range *h.items.Load() {
		object := h.get(C.rv_handle(n))
		if object != nil && any(object).(owned).owner() == c {
			numbers = append(numbers, C.rv_handle(n))
		}
	}
	return numbers
}

// owned is an object of a context.
type owned interface{ owner() *context }

// remove frees the number.
func (h *handles[T]) remove(n C.rv_handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	(*h.items.Load())[n].Store(nil)
	h.free = append(h.free, n)
}

// ptr is a pointer for C.
func ptr[T any](p *T) unsafe.Pointer { return unsafe.Pointer(p) }

// closing closes an object and frees its number.
func closing[T any](h *handles[T], n C.rv_handle, closeIt func(*T) error) C.int {
	object := h.get(n)
	if object == nil {
		return C.int(syscall.ENOENT)
	}
	if err := closeIt(object); err != nil {
		return errnoOf(err)
	}
	h.remove(n)
	return 0
}
