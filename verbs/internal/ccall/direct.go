//go:build linux && cgo && amd64 && go1.26 && !go1.27 && !race && !msan && !asan && !cgocalls

package ccall

import "unsafe"

const tried = true

// args is struct ccall_args.
type args struct {
	a, b, c, d uintptr
	p          unsafe.Pointer
	result     int64
}

func direct(fn unsafe.Pointer, a, b, c, d uintptr, p unsafe.Pointer) int64 {
	var x args
	x.a, x.b, x.c, x.d, x.p = a, b, c, d, p // faster than a literal, which is built elsewhere and copied
	asmcgocall(fn, unsafe.Pointer(&x))
	return x.result
}

// asmcgocall calls fn with arg on the thread's system stack. cgo calls it too, after it
// has notified the scheduler.
//
//go:noescape
//go:linkname asmcgocall runtime.asmcgocall
func asmcgocall(fn, arg unsafe.Pointer) int32
