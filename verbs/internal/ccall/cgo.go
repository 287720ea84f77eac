//go:build linux && cgo

package ccall

/*
#cgo noescape ccall_through
#cgo nocallback ccall_through
#include "ccall.h"

static int64_t ccall_through(uintptr_t fn, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uint8_t *p)
{
	struct ccall_args args = { a, b, c, d, p, 0 };

	((ccall_fn *)fn)(&args);
	return args.result;
}
*/
import "C"

import "unsafe"

// Through is Call through cgo, for a function that may take long. It passes p as *uint8_t,
// a type without pointers. Otherwise cgo would search the whole object around p for
// pointers.
func Through(fn unsafe.Pointer, a, b, c, d uintptr, p unsafe.Pointer) int64 {
	return int64(C.ccall_through(C.uintptr_t(uintptr(fn)), C.uintptr_t(a), C.uintptr_t(b), C.uintptr_t(c), C.uintptr_t(d), (*C.uint8_t)(p)))
}
