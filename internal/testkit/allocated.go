package testkit

import (
	"runtime"
	"strings"
)

// Allocated returns how many objects methods of a type have allocated so far, they and what they call, without
// the device. The device's goroutines, and the runtime's, allocate at times of their own. methods is a part of
// the methods' full names, such as "rnet.(*Conn).".
//
// Meanwhile the test sets runtime.MemProfileRate to 1, which makes all allocations slower.
func Allocated(methods string) (objects int64) {
	runtime.GC() // the profile lags behind by two collections
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 100)
	for n, ok := runtime.MemProfile(records, true); ; n, ok = runtime.MemProfile(records, true) {
		if ok {
			records = records[:n]
			break
		}
		records = make([]runtime.MemProfileRecord, n+100)
	}
	for i := range records {
		if inMethods(records[i].Stack(), methods) {
			objects += records[i].AllocObjects
		}
	}
	return objects
}

// inMethods reports whether one of the methods is on a stack, and no function of the software device is.
func inMethods(stack []uintptr, methods string) (found bool) {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "/softroce.") || strings.Contains(frame.Function, "/softroce/") {
			return false
		}
		found = found || strings.Contains(frame.Function, methods)
		if !more {
			return found
		}
	}
}
