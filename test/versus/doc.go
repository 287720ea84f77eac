// Package versus has benchmarks against C programs that do the same, in the same
// run, on an RDMA device: make bench-c.
package versus
