//go:build !freebsd && !openbsd && !dragonfly

package errno

import "syscall"

// NoData is the error for an empty slot of a table.
const NoData = syscall.ENODATA
