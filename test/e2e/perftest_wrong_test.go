//go:build rdma

package e2e

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// perftestSoon limits the time without progress in runs that must fail.
const perftestSoon = "--timeout=5s"

// TestPerftestWrongPeer checks that our program soon fails with one line if its peer is not a
// perftest program. The line must name the peer's program or its fault.
func TestPerftestWrongPeer(t *testing.T) {
	noLeak(t)
	run := perftestRun{"send-bw", "-n 100"}
	client := func(t *testing.T, port string) *process {
		t.Helper()
		return start(t, "rdma_client", append(run.ours(), perftestSoon, "--json", ipv4, device, port)...)
	}
	version := func(v string) string { return v + strings.Repeat("\x00", 16-len(v)) }

	t.Run("pingpong server", func(t *testing.T) {
		port := freePort(t)
		s := startCommand(t, "ibv_rc_pingpong", []string{"ibv_rc_pingpong", "-d", device, "-g", gidIndex4, "-p", port})
		waitListening(t, port)
		client(t, port).fails(1, "perftest's version", "the connection")
		s.wait()
	})
	t.Run("HTTP server", func(t *testing.T) {
		s := httptest.NewServer(http.NotFoundHandler())
		defer s.Close()
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		start(t, "rdma_client", append(run.ours(), perftestSoon, "--json", "127.0.0.1", device, port)...).fails(1, "perftest's version", "is silent")
	})
	for name, test := range map[string]struct {
		says string
		want []string
	}{
		"server of another version": {version("6.10"), []string{"version 6.10 of perftest's exchange", "4.5+0.17"}},
		"server that says much":     {strings.Repeat("nonsense", 100), []string{"perftest", "nonsense"}},
		"SSH server":                {"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", []string{"an SSH server"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				if conn, err := l.Accept(); err == nil {
					io.WriteString(conn, test.says)
					io.Copy(io.Discard, conn)
					conn.Close()
				}
			}()
			_, port, _ := net.SplitHostPort(l.Addr().String())
			start(t, "rdma_client", append(run.ours(), perftestSoon, "--json", "127.0.0.1", device, port)...).fails(1, test.want...)
		})
	}

	s := serve(t, append(run.ours(), perftestSoon)...)
	for _, test := range []struct {
		name string
		come func(t *testing.T)
		want string
	}{
		{"pingpong client", func(t *testing.T) {
			startCommand(t, "ibv_rc_pingpong", []string{"ibv_rc_pingpong", "-d", device, "-g", gidIndex4, "-p", s.port, ipv4}).wait()
		}, "like ibv_rc_pingpong"},
		{"native client", func(t *testing.T) {
			start(t, "rdma_client", "--timeout=5s", ipv4, device, s.port).fails(1)
		}, "native format"},
		{"HTTP client", func(t *testing.T) { greet(t, s, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }, "an HTTP client"},
		{"client of another version", func(t *testing.T) { greet(t, s, version("5.96")) }, "version 5.96 of perftest's exchange"},
		{"client that leaves", func(t *testing.T) { greet(t, s, version("6.06")[:7]) }, "after 7 of 16 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.come(t)
			s.event("client.failed", "error", test.want)
		})
	}
	run.c(t, s.port, ipv4).wait() // the server must still serve
	s.event("bench.result")
	s.stops()

	t.Run("native server", func(t *testing.T) {
		s := serve(t)
		if status := run.c(t, s.port, ipv4).wait(); status == 0 {
			t.Error("ib_send_bw succeeds with the native server")
		}
		s.event("client.failed", "error", "like a perftest program")
		s.stops()
	})
}

// greet sends text to a server, says that nothing follows, and waits until the server closes.
func greet(t *testing.T, s *server, text string) {
	t.Helper()
	conn := dialRaw(t, s)
	conn.SetDeadline(testkit.Deadline())
	io.WriteString(conn, text)
	conn.CloseWrite()
	io.Copy(io.Discard, conn)
	conn.Close()
}

// TestPerftestPeerDies checks that our program ends at once if the C program is killed during
// a run.
func TestPerftestPeerDies(t *testing.T) {
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
