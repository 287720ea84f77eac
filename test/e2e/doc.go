// Package e2e has the tests of the real binaries, rdma_server and rdma_client, on
// a device:
//
//	go test ./test/e2e                       on soft0; CGO_ENABLED=0 will do
//	make test-rxe                            on rxe0 in the machine of test/vm
//	make test-device RDMA_TEST_DEVICE=rxe0   on this host's device
//
// On soft0 the tests build the binaries themselves. With the build tag rdma
// RDMA_TEST_DEVICE names the device, which must have RoCE v2 GIDs of an IPv4 and
// of a global IPv6 address, and the binaries are those at the repository's root.
// RAWVERBS_BIN is another directory of binaries, for both. Tests that remove the
// device or set its network interface down, or that need the machine's second
// network namespace, have the tag rxe as well, which make test-rxe alone gives.
//
// device_soft_test.go and device_rdma_test.go say what the devices differ in.
//
// A program is ended by the handle it was started with, every wait has an end,
// and after each test nothing of it may be left: no resource of a kernel's
// device, no goroutine and no file of a process on soft0.
package e2e
