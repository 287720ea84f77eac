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
	x.a, x.b, x.c, x.d, x.p = a, b, c, d, p // a literal is made elsewhere and copied, for which its stores are waited for
	asmcgocall(fn, unsafe.Pointer(&x))
	return x.result
}

// asmcgocall calls fn with arg on the thread's system stack. It is what cgo calls between
// leaving the scheduler and coming back.
//
//go:noescape
//go:linkname asmcgocall runtime.asmcgocall
func asmcgocall(fn, arg unsafe.Pointer) int32
