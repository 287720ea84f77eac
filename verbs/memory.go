// Memory outside Go's heap, which the collector neither moves nor frees.

package verbs

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// mapMemory maps size zeroed bytes, page-aligned.
func mapMemory(size int, hugePages bool) ([]byte, error) {
	if size <= 0 {
		return nil, syscall.EINVAL
	}
	flags := unix.MAP_PRIVATE | unix.MAP_ANON
	if hugePages {
		if mapHugePages == 0 {
			return nil, syscall.ENOTSUP
		}
		flags |= mapHugePages
		size = (size + hugePageSize - 1) / hugePageSize * hugePageSize
	}
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
}

func unmapMemory(buf []byte) error { return unix.Munmap(buf) }

// hugePageSize is what a huge mapping's length is rounded up to: the size that
// amd64 and arm64 have by default.
const hugePageSize = 2 << 20
