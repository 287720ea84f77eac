package e2e

import "testing"

// TestNetJobsWithoutConnection ends the net jobs before they have a connection, at the client and at the
// server. Both must report the reason, and the server must go on.
func TestNetJobsWithoutConnection(t *testing.T) {
	noLeak(t)
	s := serve(t, "--max-memory", "4M")
	for _, job := range []string{"net-echo", "net-stream"} {
		start(t, "rdma_client", "--json", "--job", job, ipv4, device, freePort(t)).fails(1, "connection refused")
		s.client(t, "--job", job, "--ring", "2M").fails(1, "--max-memory")
	}
	s.stillServes(t)
	s.stops()
}
