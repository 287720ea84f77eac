// Package lab has the jobs that rdma_server and rdma_client do: one file a job,
// the client's half and the server's side by side, on connections of package rc.
package lab
