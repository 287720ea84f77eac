//go:build linux && cgo && (!amd64 || !go1.26 || go1.27 || race || msan || asan || cgocalls)

package ccall

import "unsafe"

const tried = false

func direct(unsafe.Pointer, *args) {
	panic("ccall: not tried here")
}
