// Package interop tests links against rdma_rxe, in the machine of test/vm: a link
// in the network namespace "peer", and a UD queue pair of rxe0. It is a package
// of its own since rdma_rxe leaves no port for the other tests.
package interop
