// Package interop tests the software device against rdma_rxe in the virtual machine of test/vm.
// rxe0 is in the network namespace of the tests. The soft devices are in the namespace "peer",
// where rdma_rxe does not own UDP port 4791. Both ends are in one process, so that tests can
// compare their memory.
//
//	make test-rxe rdma_packages=./softroce/internal/interop/
//	make bench-rxe
package interop
