//go:build linux && cgo

// Package ccalltest has C functions of the type that ccall.Call calls. Only tests
// import it.
package ccalltest

// #include "functions.h"
import "C"

import "unsafe"

// What each does with its arguments a, b, c, d and p.
var (
	Polynomial = unsafe.Pointer(C.ccalltest_polynomial) // a + 10b + 100c - 1000d; adds 1 to the uint64 at p
	SetErrno   = unsafe.Pointer(C.ccalltest_set_errno)  // sets errno to a; what errno was
	Work       = unsafe.Pointer(C.ccalltest_work)       // takes a nanoseconds; b
	Fault      = unsafe.Pointer(C.ccalltest_fault)      // reads from address a
	FaultDeep  = unsafe.Pointer(C.ccalltest_fault_deep) // the same, in a function that others called
)
