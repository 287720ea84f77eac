// Package versus has benchmarks against C programs that do the same, in the same
// run, on an RDMA device: make bench-c. Whole programs are compared by its command
// bench: make bench.
package versus
