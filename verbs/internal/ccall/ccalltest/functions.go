//go:build linux && cgo

// Package ccalltest has C functions of the type that ccall.Call calls. Only tests
// import it.
package ccalltest

// #include "functions.h"
import "C"

import "unsafe"

// What each does with its arguments a, b, c, d and p.
var (
	Nothing    = unsafe.Pointer(C.ccalltest_nothing)    // 0
	Polynomial = unsafe.Pointer(C.ccalltest_polynomial) // a + 10b + 100c - 1000d; adds 1 to the uint64 at p
	Misaligned = unsafe.Pointer(C.ccalltest_misaligned) // 0 if its stack is aligned as it must be
	SetErrno   = unsafe.Pointer(C.ccalltest_set_errno)  // sets errno to a; what errno was
	UseStack   = unsafe.Pointer(C.ccalltest_use_stack)  // writes to a bytes of its stack
	Work       = unsafe.Pointer(C.ccalltest_work)       // takes a nanoseconds; b
	Crash      = unsafe.Pointer(C.ccalltest_crash)      // reads from address a
)
