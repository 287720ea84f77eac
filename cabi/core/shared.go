//go:build linux && cgo

package main

// #include "../core.h"
// #include <stdlib.h>
import "C"

// newShared allocates what the core shares with the shim. It lies in C memory.
func newShared() *C.struct_rv_device {
	return (*C.struct_rv_device)(C.calloc(1, C.sizeof_struct_rv_device))
}

func freeShared(d *C.struct_rv_device) { C.free(ptr(d)) }
