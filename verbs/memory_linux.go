package verbs

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePageSize is what the length of huge memory is rounded up to: the size that amd64 and
// arm64 have by default.
const hugePageSize = 2 << 20

// newHugePages makes memory of Go's and puts huge pages in the place of its own. free puts
// ordinary, zeroed ones back: so the huge pages return to the system at Close, and the
// addresses when nobody has a slice of them any more. Until then the memory stays pinned,
// and Go does not look into it, since it has no pointers.
func newHugePages(size int) (buf []byte, free func() error, err error) {
	if buf, err = newPages(size, hugePageSize); err != nil {
		return nil, nil, err
	}
	buf = buf[:cap(buf)]
	unpin := pin(buf)
	free = func() error {
		if err := replacePages(buf, 0); err != nil {
			return err // and the memory stays pinned, since Go must not get huge pages back
		}
		return unpin()
	}
	if err = replacePages(buf, unix.MAP_HUGETLB); err != nil {
		if free() != nil { // the failed attempt may have left a hole
			return nil, nil, syscall.ENOMEM // which stays pinned
		}
		return nil, nil, err
	}
	return buf, free, nil
}

// replacePages gives buf, which is whole pages, new ones. mmap's result is an address of an
// object of Go's, which checkptr holds against whoever makes a pointer of a number.
//
//go:nocheckptr
func replacePages(buf []byte, flags int) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(buf)), uintptr(len(buf)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED|flags)
	return err
}
