//go:build linux && cgo && amd64 && !race && !msan && !asan && !cgocalls

package ccall

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stackSize is how many bytes of stack a function has, of which the kernel provides those
// that are touched. Beyond it is a page that must not be touched, so that a function that
// needs more ends the program, and does not write over other memory.
const stackSize = 256 << 10

// above is left free above a function's stack. When a signal, or a fault of the function,
// has the runtime look where the call came from, it reads there, and finds nothing.
const above = 1024

// stack is memory for one call at a time.
type stack struct{ top uintptr }

// stacks holds as many as there were calls at once, until the garbage collector finds that
// fewer will do.
var stacks = sync.Pool{New: func() any {
	page := unix.Getpagesize()
	memory, err := unix.Mmap(-1, 0, page+stackSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_STACK|unix.MAP_NORESERVE)
	if err == nil {
		err = unix.Mprotect(memory[:page], unix.PROT_NONE)
	}
	if err != nil {
		panic(fmt.Sprintf("ccall: no stack for C: %v", err))
	}
	s := &stack{top: uintptr(unsafe.Pointer(&memory[0])) + uintptr(len(memory)) - above}
	runtime.AddCleanup(s, func(memory []byte) { _ = unix.Munmap(memory) }, memory)
	return s
}}

func call(fn unsafe.Pointer, a, b, c, d uintptr, p unsafe.Pointer) int64 {
	s := stacks.Get().(*stack)
	result := callOn(s.top, fn, a, b, c, d, p)
	stacks.Put(s)
	return result
}

// callOn is in direct_amd64.s.
//
//go:noescape
func callOn(stack uintptr, fn unsafe.Pointer, a, b, c, d uintptr, p unsafe.Pointer) int64
