// Package e2e has the tests of the real binaries, rdma_server and rdma_client,
// on a real RDMA device. They need the build tag rdma:
//
//	make test-rxe                            on rxe0 in the machine of test/vm
//	make test-device RDMA_TEST_DEVICE=rxe0   on this host's device
//
// RDMA_TEST_DEVICE names the device, which must have RoCE v2 GIDs of an IPv4 and
// of a global IPv6 address; RAWVERBS_BIN the directory of the binaries, if it is
// not the repository's root. Tests that remove the device or set its network
// interface down have the tag rxe as well, which make test-rxe alone gives.
//
// A program is ended by the handle it was started with, every wait has an end,
// and after each test no resource of the device may be left.
package e2e
