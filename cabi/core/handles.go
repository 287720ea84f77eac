//go:build linux && cgo

package main

// #include "../core.h"
import "C"

import (
	"sync"
	"sync/atomic"
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

// get returns the object of a number. The shim passes only numbers of objects that exist.
func (h *handles[T]) get(n C.rv_handle) *T { return (*h.items.Load())[n].Load() }

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

// find returns the object of a number that a program chose, or nil if no object has the number.
func (h *handles[T]) find(n C.rv_handle) *T {
	items := h.items.Load()
	if items == nil || int(n) >= len(*items) {
		return nil
	}
	return (*items)[n].Load()
}

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
func closing[T any](h *handles[T], n C.rv_handle, closeIt func() error) C.int {
	if err := closeIt(); err != nil {
		return errnoOf(err)
	}
	h.remove(n)
	return 0
}
