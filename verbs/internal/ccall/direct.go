//go:build linux && cgo && amd64 && go1.26 && !go1.27 && !race && !msan && !asan && !cgocalls

package ccall

import "unsafe"

const tried = true

func direct(fn unsafe.Pointer, x *args) { asmcgocall(fn, unsafe.Pointer(x)) }

// asmcgocall calls fn with arg on the thread's system stack. cgo calls it too, after it
// has notified the scheduler.
//
//go:noescape
//go:linkname asmcgocall runtime.asmcgocall
func asmcgocall(fn, arg unsafe.Pointer) int32
