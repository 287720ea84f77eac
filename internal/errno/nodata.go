//go:build !freebsd && !openbsd && !dragonfly

package errno

import "syscall"

// NoData is for the empty slot of a table.
const NoData = syscall.ENODATA
