// Package versus compares Go with equivalent C programs on an RDMA device, in the same run:
// make bench-c. The command bench in this directory compares whole programs: make bench.
package versus
