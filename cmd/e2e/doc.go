// Package e2e has the tests of the real binaries, rdma_server and rdma_client, on
// a device:
//
//	go test ./cmd/e2e                       on soft0; works with CGO_ENABLED=0
//	make test-rxe                            on rxe0 in the machine of test/vm
//	make test-device RDMA_TEST_DEVICE=rxe0   on this host's device
//
// On soft0 the tests build the binaries themselves. With the build tag rdma they use the
// binaries at the repository's root, on the device RDMA_TEST_DEVICE. That device must have
// RoCE v2 GIDs of an IPv4 and of a global IPv6 address. RAWVERBS_BIN selects another
// directory of binaries in both cases.
//
// Tests that remove the device, set its network interface down or need the machine's second
// network namespace also have the build tag rxe. Only make test-rxe sets that tag.
//
// device_soft_test.go and device_rdma_test.go have the differences between the devices.
//
// A test ends only programs that it started. Every wait has a limit. After each test
// nothing may be left: no object on a kernel's device, no goroutine and no open file of a
// process on soft0.
package e2e
