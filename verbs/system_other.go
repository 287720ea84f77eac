//go:build !unix

// What verbs asks the system beside RDMA, where there is little to ask: in a browser.

package verbs

import "syscall"

// available reports whether size is an amount that Go can be expected to have here.
func available(size int) bool { return size <= 1<<30 }

// memlockNow is empty: no limit of locked memory is known here.
func memlockNow() string { return "" }

// errnoName is "EINVAL", or "" for an errno that no device in software answers.
func errnoName(errno syscall.Errno) string { return errnoNames[errno] }

var errnoNames = map[syscall.Errno]string{
	syscall.EPERM: "EPERM", syscall.ENOENT: "ENOENT", syscall.EIO: "EIO", syscall.EBADF: "EBADF", syscall.EAGAIN: "EAGAIN",
	syscall.ENOMEM: "ENOMEM", syscall.EACCES: "EACCES", syscall.EFAULT: "EFAULT", syscall.EBUSY: "EBUSY",
	syscall.ENODEV: "ENODEV", syscall.EINVAL: "EINVAL", syscall.ENOSYS: "ENOSYS", syscall.ENODATA: "ENODATA",
	syscall.EOVERFLOW: "EOVERFLOW", syscall.EOPNOTSUPP: "EOPNOTSUPP", syscall.ETIMEDOUT: "ETIMEDOUT",
	syscall.ENETUNREACH: "ENETUNREACH", syscall.EHOSTUNREACH: "EHOSTUNREACH",
}
