//go:build linux && cgo && (!amd64 || !go1.26 || go1.27 || race || msan || asan || cgocalls)

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

// call gives cgo what is in x one by one: x itself may hold a pointer, which Go memory that
// cgo is given must not. What p points to has none, and p's type says so: else all of the
// object that it is part of would be looked through for some.
func call(fn unsafe.Pointer, x *args) {
	x.result = int64(C.ccall_through(C.uintptr_t(uintptr(fn)), C.uintptr_t(x.a), C.uintptr_t(x.b), C.uintptr_t(x.c), C.uintptr_t(x.d), (*C.uint8_t)(x.p)))
}
