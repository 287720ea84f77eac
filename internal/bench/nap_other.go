//go:build !linux

// The sleep of nap_linux.go, on systems whose kernel is no RDMA device.

package bench

// nap is never called: Queues.KernelWorks is of Linux alone.
func nap() {}
