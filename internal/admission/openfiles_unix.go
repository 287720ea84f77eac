//go:build unix

package admission

import "syscall"

// openFiles returns how many files the process may have open.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 4 * mostSilent
	}
	return uint64(limit.Cur) //nolint:unconvert // an int64 on FreeBSD
}
