//go:build !linux

// No such device is there: the kernel's is Linux's.

package bench

func nap() {}
