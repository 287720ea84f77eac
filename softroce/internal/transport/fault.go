// Memory that disappears: a program in C can unmap a region that is still registered, and a
// DMA-BUF's file can become shorter.

package transport

import "runtime/debug"

// touch runs f, which accesses the program's memory. It returns false if a part of the memory is
// not mapped. Without touch, the access would end the process.
func touch(f func()) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil && !isFault(r) {
			panic(r)
		}
	}()
	f()
	return true
}

// isFault reports whether a panic comes from an access to memory that is not mapped.
func isFault(r any) bool {
	_, fault := r.(interface{ Addr() uintptr })
	return fault
}
