//go:build unix

// What verbs asks the system beside RDMA.

package verbs

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// available reports whether the system would give the process size bytes more. A program
// that Go cannot get memory for ends, so AllocMR asks first.
func available(size int) bool {
	const worthAsking, growth = 1 << 20, 4 << 20 << (^uint(0) >> 63 * 4) // Go's heap grows by 64 MiB, or 4 of 32 bits
	if size < worthAsking {
		return true
	}
	if size += growth; size < 0 {
		return false
	}
	trial, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return err == nil && unix.Munmap(trial) == nil
}

// memlockNow is ", now 8192 KiB".
func memlockNow() string {
	var limit unix.Rlimit
	switch err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); {
	case err != nil:
		return ""
	case limit.Cur == unix.RLIM_INFINITY:
		return ", which is unlimited now: so the machine's or the device's memory is what is short"
	}
	return fmt.Sprintf(", now %d KiB", limit.Cur>>10)
}

// errnoName is "EINVAL", or "" for a number that has no name.
func errnoName(errno syscall.Errno) string { return unix.ErrnoName(errno) }
