//go:build linux && cgo && amd64 && go1.26 && !go1.27 && !race && !msan && !asan && !cgocalls

package ccall

import "unsafe"

func call(fn unsafe.Pointer, x *args) { asmcgocall(fn, unsafe.Pointer(x)) }

// asmcgocall calls fn with arg on the thread's system stack. It is what cgo calls between
// leaving the scheduler and coming back.
//
//go:noescape
//go:linkname asmcgocall runtime.asmcgocall
func asmcgocall(fn, arg unsafe.Pointer) int32
