//go:build !linux

// The sleep of nap_linux.go on systems whose kernel has no software RDMA device.

package measure

// nap is never called: Queues.KernelWorks is true only on Linux.
func nap() {}
