// Package interop tests the software device against rdma_rxe, in the machine of
// test/vm: rxe0 in the network namespace of the tests, and soft devices in the
// namespace "peer", where rdma_rxe leaves UDP port 4791. Both ends are in one
// process, so that memory can be compared.
//
//	make test-rxe rdma_packages=./softroce/internal/interop/
//	make bench-rxe
package interop
