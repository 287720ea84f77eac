//go:build linux && cgo && (!amd64 || race || msan || asan || cgocalls)

package ccall

/*
#cgo noescape ccall_through
#cgo nocallback ccall_through
#include <stdint.h>

typedef int64_t ccall_fn(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, void *p);

static int64_t ccall_through(uintptr_t fn, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, void *p)
{
	return ((ccall_fn *)fn)(a, b, c, d, p);
}
*/
import "C"

import "unsafe"

func call(fn unsafe.Pointer, a, b, c, d uintptr, p unsafe.Pointer) int64 {
	return int64(C.ccall_through(C.uintptr_t(uintptr(fn)), C.uintptr_t(a), C.uintptr_t(b), C.uintptr_t(c), C.uintptr_t(d), p))
}
