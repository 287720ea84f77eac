// Memory for regions. It is Go memory, so that a slice stays valid after Close.
// docs/design/memory.md explains why.

package verbs

import (
	"math"
	"os"
	"syscall"
	"unsafe"
)

// newPages allocates size zeroed bytes in whole pages that contain nothing else. page is a power of
// 2. The slice's capacity is all of the pages.
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

// newMemory allocates the memory of a region: pinned, zeroed, whole pages; with huge, huge pages. free
// releases it.
func newMemory(size int, huge bool) (buf []byte, free func() error, err error) {
	if huge {
		return newHugePages(size)
	}
	if buf, err = newPages(size, os.Getpagesize()); err != nil {
		return nil, nil, err
	}
	return buf, pin(buf), nil
}
