//go:build !unix

// What verbs asks the system beside RDMA, where there is little to ask: in a browser.

package verbs

import (
	"syscall"

	"github.com/rawverbs/rawverbs/internal/diagnosis"
)

// available reports whether size is an amount that Go can be expected to have here.
func available(size int) bool { return size <= 1<<30 }

// memlockNow is empty: no limit of locked memory is known here.
func memlockNow() string { return "" }

// errnoName returns "EINVAL", or "" for an errno that package diagnosis does not have.
func errnoName(errno syscall.Errno) string { return diagnosis.ErrnoName(errno) }
