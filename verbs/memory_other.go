//go:build !linux

package verbs

import "syscall"

// newHugePages fails: this system has no huge pages that a program can ask for.
func newHugePages(int) ([]byte, func() error, error) { return nil, nil, syscall.ENOTSUP }
