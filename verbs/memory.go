// Memory for regions. It is Go's own, so that whoever still has a slice of it after Close
// has memory that nobody else is given.

package verbs

import (
	"math"
	"os"
	"syscall"
	"unsafe"
)

// newPages makes size zeroed bytes in pages of a size, a power of 2, that nothing else is
// in: the slice's capacity is all of them.
func newPages(size, page int) ([]byte, error) {
	if size <= 0 {
		return nil, syscall.EINVAL
	}
	if size > math.MaxInt-2*page {
		return nil, syscall.ENOMEM
	}
	whole := (size + page - 1) / page * page
	if !available(whole + page) {
		return nil, syscall.ENOMEM
	}
	buf := make([]byte, whole+page-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(buf))) % uintptr(page))
	return buf[skip : skip+size : skip+whole], nil
}

// newMemory makes the memory of a region: pinned, zeroed whole pages of the system's or,
// if asked for, huge ones. free lets go of it.
func newMemory(size int, huge bool) (buf []byte, free func() error, err error) {
	if huge {
		return newHugePages(size)
	}
	if buf, err = newPages(size, os.Getpagesize()); err != nil {
		return nil, nil, err
	}
	return buf, pin(buf), nil
}
