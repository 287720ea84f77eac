//go:build linux && cgo

// Package ccall calls short C functions for less than cgo does.
//
// cgo takes each call for one that may block. So it tells the scheduler before and after,
// and where the process was idle it wakes the runtime's monitor thread, which then looks
// every 20 µs whether the call has come to block: more work than a poll of a completion
// queue, and for a program that sleeps between two batches it comes with every batch.
//
// Where it can, Call therefore does what cgo does, on the same stack, without telling the
// scheduler, as the runtime itself does with C functions of its own. Until the function returns
// the goroutine keeps its processor, and the garbage collector waits for it, as with a loop of
// Go code without calls. A CPU profile has its time under runtime._ExternalCode, without
// the caller. A fault of it, or a SIGQUIT, ends the program with the goroutine's stack told as with
// cgo, after that of the system stack; a goroutine that is in such a call on another thread is
// told of without its stack, and handlers that C had installed get no fault.
//
// The function of the runtime by which that is done is not one that Go promises to keep for
// others. So it is used with the versions of Go that this was tried with, on amd64. With
// others, under the race detector and the sanitizers, with the build tag cgocalls, and where
// the environment says so (Variable), the call goes through cgo.
package ccall

import (
	"os"
	"unsafe"
)

// Variable is the environment variable that has all calls go through cgo, unless it is
// empty or 0. It is read when the program starts.
const Variable = "RAWVERBS_CGO_CALLS"

// Direct says whether Call goes past the scheduler.
var Direct = tried && (os.Getenv(Variable) == "" || os.Getenv(Variable) == "0")

// Call calls fn, a C function of the type ccall_fn (ccall.h), and returns the result that it
// sets. It must not block nor call Go, and be done in some microseconds. p may be nil or
// Go memory that holds no pointers; fn must not keep it.
func Call(fn unsafe.Pointer, a, b, c, d uintptr, p unsafe.Pointer) int64 {
	if Direct {
		return direct(fn, a, b, c, d, p)
	}
	return Through(fn, a, b, c, d, p)
}
