package testkit

import "runtime"

// Heap returns the bytes of the heap that are in use after a collection. Compare it for changes of megabytes: other
// goroutines have their part in it.
func Heap() int64 {
	runtime.GC()
	runtime.GC() // frees what finalizers and cleanups held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
