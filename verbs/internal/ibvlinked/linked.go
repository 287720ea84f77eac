//go:build linux && cgo

// Package ibvlinked calls libibverbs as a program's other packages may: linked with
// -libverbs. Only its test imports it, beside package verbs.
package ibvlinked

// #cgo LDFLAGS: -libverbs
// #include <errno.h>
// #include <infiniband/verbs.h>
//
// static int list_devices(int *n)
// {
//	struct ibv_device **list;
//
//	errno = 0;
//	list = ibv_get_device_list(n);
//	if (!list)
//		return errno ? errno : EIO;
//	ibv_free_device_list(list);
//	return 0;
// }
import "C"

import "syscall"

// Devices returns how many devices libibverbs lists, or its errno.
func Devices() (int, syscall.Errno) {
	var n C.int
	errno := C.list_devices(&n)
	return int(n), syscall.Errno(errno)
}
