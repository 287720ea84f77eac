//go:build linux && cgo

// Package ccalltest has C functions of the type that ccall.Call calls. Only tests
// import it.
package ccalltest

// #include "functions.h"
import "C"

// What each does with its arguments a, b, c, d and p.
var (
	Polynomial = C.ccalltest_polynomial // a + 10b + 100c - 1000d; adds 1 to the uint64 at p
	SetErrno   = C.ccalltest_set_errno  // sets errno to a; what errno was
	Work       = C.ccalltest_work       // takes a nanoseconds; b
	Fault      = C.ccalltest_fault      // reads from address a
	FaultDeep  = C.ccalltest_fault_deep // the same, in a function that others called
)
