//go:build !unix

// Queries of the operating system that are not about RDMA, on systems that cannot answer most of
// them, such as a browser.

package verbs

import (
	"syscall"

	"github.com/rawverbs/rawverbs/internal/diagnosis"
)

// available reports whether Go probably has room for size bytes.
func available(size int) bool { return size <= 1<<30 }

// memlockNow returns "": this system has no known limit of locked memory.
func memlockNow() string { return "" }

// errnoName returns "EINVAL", or "" for an errno that package diagnosis does not have.
func errnoName(errno syscall.Errno) string { return diagnosis.ErrnoName(errno) }
