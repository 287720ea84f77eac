//go:build linux && cgo

// Package ccalltest has C functions for the tests of ccall.Call.
package ccalltest

// #include "functions.h"
import "C"

// The functions and their use of the arguments a, b, c, d and p.
var (
	Polynomial = C.ccalltest_polynomial // returns a + 10b + 100c - 1000d; adds 1 to the uint64 at p
	SetErrno   = C.ccalltest_set_errno  // sets errno to a; returns the earlier errno
	Work       = C.ccalltest_work       // runs for a nanoseconds; returns b
	Raise      = C.ccalltest_raise      // sends signal a to this thread
	Fault      = C.ccalltest_fault      // reads from address a
	FaultDeep  = C.ccalltest_fault_deep // reads from address a after several nested calls
)
