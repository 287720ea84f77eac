//go:build unix

package lobby

import "syscall"

// openFiles is how many files the process may have open at a time.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 4 * maxSilent
	}
	return uint64(limit.Cur) //nolint:unconvert // an int64 on FreeBSD
}
