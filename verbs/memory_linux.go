package verbs

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePageSize is the default size of huge pages on amd64 and arm64. The length of the memory is
// rounded up to it.
const hugePageSize = 2 << 20

// newHugePages allocates Go memory and maps huge pages over the same addresses. free maps ordinary,
// zeroed pages there again and unpins the memory. So the huge pages return to the system at Close,
// and the addresses remain Go's. The memory stays pinned until then. The collector does not read
// it, because it has no pointers.
func newHugePages(size int) (buf []byte, free func() error, err error) {
	if buf, err = newPages(size, hugePageSize); err != nil {
		return nil, nil, err
	}
	buf = buf[:cap(buf)]
	unpin := pin(buf)
	free = func() error {
		if err := replacePages(buf, 0); err != nil {
			return err // the memory stays pinned, because Go must not reuse huge pages
		}
		return unpin()
	}
	if err = replacePages(buf, unix.MAP_HUGETLB); err != nil {
		if free() != nil { // the failed attempt may have left a hole in the mapping
			return nil, nil, syscall.ENOMEM // the memory stays pinned
		}
		return nil, nil, err
	}
	return buf, free, nil
}

// replacePages maps new pages over buf, which must be whole pages. checkptr does not allow that mmap's
// result, a number, becomes a pointer to a Go object.
//
//go:nocheckptr
func replacePages(buf []byte, flags int) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(buf)), uintptr(len(buf)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED|flags)
	return err
}
