// Package interop tests links against rdma_rxe in the machine of test/vm: a link in the
// network namespace "peer", and a UD queue pair of rxe0. It is a separate package because
// rdma_rxe uses the UDP port that the other tests need.
package interop
