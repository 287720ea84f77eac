//go:build !freebsd && !openbsd && !dragonfly

package verbs

import "syscall"

// errNoData is the errno of an empty slot of a table.
const errNoData = syscall.ENODATA
