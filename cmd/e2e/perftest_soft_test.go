//go:build rdma && rxe

package e2e

import (
	"net"
	"testing"
)

// TestPerftestWithSoft runs the C programs on the kernel's device and our programs on the
// software device, in both directions.
func TestPerftestWithSoft(t *testing.T) {
	noLeak(t)
	for _, r := range []perftestRun{{"send-bw", "-n 50 -s 20000"}, {"write-lat", "-n 50"}, {"read-bw", "-n 50 -q 2"}, {"atomic-lat", "-n 50"}} {
		t.Run(r.test+"/C server", func(t *testing.T) {
			port := freePort(t)
			s := r.c(t, port)
			c := startBy(t, inPeer, "rdma_client", append(r.ours(), "--json", ipv4, softDevice, port)...)
			c.succeeds()
			if status := s.wait(); status != 0 {
				t.Errorf("the C server's status is %d", status)
			}
			r.check(t, "client", figuresOfOurs(c))
		})
		t.Run(r.test+"/C client", func(t *testing.T) {
			s := startBy(t, inPeer, "rdma_server", append(r.ours(), "--json", "--once", softDevice, "0")...)
			_, port, err := net.SplitHostPort(s.event("server.listening").str("address"))
			if err != nil {
				t.Fatal(err)
			}
			c := r.c(t, port, softIPv4)
			if status := c.wait(); status != 0 {
				t.Errorf("the C client's status is %d", status)
			}
			s.succeeds()
			r.check(t, "C client", figuresOfC(c, r))
		})
	}
}
