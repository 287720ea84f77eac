//go:build linux && cgo

// Package ibvlinked calls libibverbs through the linker option -libverbs, as other packages
// of a program may do. Its test imports it together with package verbs.
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

// Devices returns the number of devices that libibverbs lists, or its errno.
func Devices() (int, syscall.Errno) {
	var n C.int
	errno := C.list_devices(&n)
	return int(n), syscall.Errno(errno)
}
