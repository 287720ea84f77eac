//go:build unix

// Queries of the operating system that are not about RDMA.

package verbs

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// available reports whether the system would give the process size more bytes. AllocMR asks first,
// because Go ends a program if the system has no memory for it.
func available(size int) bool {
	const worthAsking, growth = 1 << 20, 4 << 20 << (^uint(0) >> 63 * 4) // Go's heap grows by 64 MiB, or by 4 MiB on 32 bits
	if size < worthAsking {
		return true
	}
	if size += growth; size < 0 {
		return false
	}
	trial, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return err == nil && unix.Munmap(trial) == nil
}

// memlockNow returns the limit as the end of a hint: ", now 8192 KiB".
func memlockNow() string {
	var limit unix.Rlimit
	switch err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); {
	case err != nil:
		return ""
	case limit.Cur == unix.RLIM_INFINITY:
		return ", which is unlimited now, so the machine or the device has too little memory"
	}
	return fmt.Sprintf(", now %d KiB", limit.Cur>>10)
}

// errnoName returns "EINVAL", or "" for a number without a name.
func errnoName(errno syscall.Errno) string { return unix.ErrnoName(errno) }
