//go:build linux && cgo

// Package ccall calls short C functions with less overhead than cgo.
//
// # Why
//
// cgo assumes that each call may block. It notifies the scheduler before and after the
// call. In an idle process it also wakes the runtime's monitor thread, which then checks
// every 20 µs whether the call blocks. This is more work than a poll of a completion queue.
// A program that sleeps between two batches pays for it with every batch.
//
// # Direct calls
//
// A direct call switches to the system stack, as cgo does, but does not notify the
// scheduler. The runtime calls its own C functions in this way. The consequences are:
//
//   - Until the function returns, the goroutine keeps its processor, and the garbage
//     collector waits for it, as for a loop of Go code without calls.
//   - A CPU profile shows the time under runtime._ExternalCode, without the caller.
//   - A fault in the function, or SIGQUIT, ends the program. The goroutine's stack is
//     printed as with cgo, after the system stack. The stack of a goroutine that is in a
//     direct call on another thread is not printed.
//   - Signal handlers that C code has installed do not get the fault.
//
// # When calls are direct
//
// The runtime function behind a direct call is not part of Go's compatibility promise. It
// is used only on amd64 and only with Go versions that the tests of this package have run
// with. All other calls go through cgo: under the race detector and the sanitizers, with
// the build tag cgocalls, and if the environment variable Variable is set.
package ccall

import (
	"os"
	"unsafe"
)

// Variable is the name of an environment variable. Unless it is empty or 0, all calls go
// through cgo. It is read when the program starts.
const Variable = "RAWVERBS_CGO_CALLS"

// Direct reports whether Call makes direct calls.
var Direct = tried && (os.Getenv(Variable) == "" || os.Getenv(Variable) == "0")

// args is struct ccall_args.
type args struct {
	a, b, c, d uintptr
	p          unsafe.Pointer
	result     int64
}

// Call calls fn, a C function of the type ccall_fn (ccall.h), and returns fn's result. fn
// must not block, must not call Go, and must return within some microseconds. p may be nil
// or point to Go memory without pointers. fn must not keep p.
func Call(fn unsafe.Pointer, a, b, c, d uintptr, p unsafe.Pointer) int64 {
	if !Direct {
		return Through(fn, a, b, c, d, p)
	}
	var x args
	x.a, x.b, x.c, x.d, x.p = a, b, c, d, p // faster than a literal, which is built elsewhere and copied
	direct(fn, &x)
	return x.result
}
