//go:build rdma

package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// perftestSoon limits the time without progress in runs that must fail.
const perftestSoon = "--timeout=5s"

// TestPerftestWrongPeer connects C programs to ends of another format. Our program must soon fail with one line that names
// the other. The tests of cmd/internal/peer have many more strangers.
func TestPerftestWrongPeer(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	run := perftestRun{"send-bw", "-n 100"}
	pingpong := []string{"ibv_rc_pingpong", "-d", device, "-g", gidIndex4, "-p"}
	t.Run("pingpong server", func(t *testing.T) {
		port := freePort(t)
		s := startCommand(t, "ibv_rc_pingpong", append(pingpong, port))
		waitListening(t, port)
		c := start(t, "rdma_client", append(run.ours(), perftestSoon, "--json", ipv4, device, port)...)
		c.fails(1, "perftest's version", "the connection")
		s.wait()
	})
	t.Run("pingpong client", func(t *testing.T) {
		s := serve(t, append(run.ours(), perftestSoon)...)
		startCommand(t, "ibv_rc_pingpong", append(pingpong, s.port, ipv4)).wait()
		s.event("client.failed", "error", "like ibv_rc_pingpong")
		run.c(t, s.port, ipv4).wait() // the server must still serve
		s.event("bench.result")
		s.stops()
	})
	t.Run("native server", func(t *testing.T) {
		s := serve(t)
		if status := run.c(t, s.port, ipv4).wait(); status == 0 {
			t.Error("ib_send_bw succeeds with the native server")
		}
		s.event("client.failed", "error", "like a perftest program")
		s.stops()
	})
}

// TestPerftestPeerDies checks that our program ends at once if the C program is killed during
// a run.
func TestPerftestPeerDies(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	for _, test := range []string{"send-bw", "write-bw", "send-lat", "write-lat", "read-lat"} {
		run := perftestRun{test, "-D 60"}
		t.Run(test+"/client", func(t *testing.T) {
			port := freePort(t)
			s := run.c(t, port)
			c := start(t, "rdma_client", append(run.ours(), "--json", ipv4, device, port)...)
			c.event("bench.begun")
			time.Sleep(300 * time.Millisecond)
			s.signal(os.Kill)
			c.fails(1)
		})
		t.Run(test+"/server", func(t *testing.T) {
			s := serve(t, append([]string{"--once"}, run.ours()...)...)
			c := run.c(t, s.port, ipv4)
			s.event("bench.begun")
			time.Sleep(300 * time.Millisecond)
			c.signal(os.Kill)
			s.fails(1, "the connection")
		})
	}
}

// TestPerftestOtherFlags runs both ends with different flags that perftest does not exchange.
func TestPerftestOtherFlags(t *testing.T) {
	noLeak(t)
	for _, test := range []struct{ test, c, ours, want string }{
		{"send-bw", "-n 100 -q 2", "-n 100 -q 1", "-q"},
		{"send-bw", "-n 100 -s 4096", "-n 100 -s 1024", "-s 1024"},
		{"send-bw", "-n 100", "-n 200", "-n 200"},
	} {
		t.Run(test.test+" "+test.c, func(t *testing.T) {
			s := serve(t, append([]string{"--once", perftestSoon}, perftestRun{test.test, test.ours}.ours()...)...)
			c := perftestRun{test.test, test.c}.c(t, s.port, ipv4)
			s.fails(1, test.want)
			c.wait()
		})
	}
}
