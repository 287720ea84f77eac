// Package run runs what rdma_server and rdma_client do: the list of jobs, the job that a
// command line selects, the server's loop, the client's run and the device. The jobs are
// in cmd/internal/job, one folder each, and the programs of others in cmd/internal/peer.
package run
