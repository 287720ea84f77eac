package e2e

import (
	"net"
	"os"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestOneAfterAnother checks that the server frees the resources of each client.
func TestOneAfterAnother(t *testing.T) {
	noLeak(t)
	s := serve(t)
	for range 3 {
		s.stillServes(t)
	}
	s.stops()
	if got := len(s.all("run.done")); got != 3 {
		t.Errorf("%d jobs done, want 3", got)
	}
	if r := s.find("server.stopped"); r == nil || r["done"] != 3.0 || r["failed"] != 0.0 {
		t.Errorf("last record %v", r)
	}
}

func TestSideBySide(t *testing.T) {
	noLeak(t)
	s := serve(t, never)
	var clients []*process
	for range sideBySide {
		clients = append(clients, s.client(t, never))
	}
	for _, c := range clients {
		c.succeeds()
	}
	s.held.expect(t, s)
	s.stops()
	if got := len(s.all("run.done")); got != sideBySide {
		t.Errorf("%d jobs done, want %d", got, sideBySide)
	}
}

func TestOnce(t *testing.T) {
	noLeak(t)
	t.Run("done", func(t *testing.T) {
		s := serve(t, "--once")
		s.client(t).succeeds()
		s.succeeds()
	})
	t.Run("failed", func(t *testing.T) {
		s := serve(t, "--once", "--max-size", "10")
		s.client(t, "--size", "11", "-s", "").fails(1, "the client asks for 11 bytes", "at most 10", "--size 10")
		s.fails(1, "the client asks for 11 bytes", "--max-size")
	})
}

// TestOnceOutlivesProbes checks that --once does not count connections without a job: a port
// scanner, another protocol, a silent connection, and a client with an unknown job.
func TestOnceOutlivesProbes(t *testing.T) {
	noLeak(t)
	s := serve(t, "--once")
	dialRaw(t, s).Close()
	s.event("client.failed", "error", "before it sent anything")
	for _, greeting := range []string{"GET / HTTP/1.1\r\n\r\n", "RVO\n\x01\x01"} {
		tcp := dialRaw(t, s)
		tcp.Write([]byte(greeting))
		tcp.CloseWrite()
		s.event("client.failed", "peer", tcp.LocalAddr().String())
	}
	silent := dialRaw(t, s)
	defer silent.Close()
	s.client(t, "--peer", "rc-example").fails(1)
	silent.Close()
	s.held.expect(t, s)
	silent = dialRaw(t, s)
	defer silent.Close()
	s.client(t).succeeds()
	s.succeeds()
}

// TestOnceIsOneClient checks that --once refuses a second client during the job.
func TestOnceIsOneClient(t *testing.T) {
	noLeak(t)
	s := serve(t, "--once", never)
	holds := muteClient(t, s)
	s.client(t).fails(1, "the server serves only one client", "without --once")
	holds.Close()
	s.fails(1, "closed the connection")
}

// TestFewDescriptors opens more connections than the server may have open files. The server
// must keep serving clients.
func TestFewDescriptors(t *testing.T) {
	noLeak(t)
	s := serveBy(t, []string{"sh", "-c", `ulimit -n 64; exec "$@"`, "sh"})
	var silent []net.Conn
	for range 150 {
		silent = append(silent, dialRaw(t, s))
	}
	s.client(t).succeeds()
	for _, nc := range silent {
		nc.Close()
	}
	s.stillServes(t)
	s.stops()
}

// TestMaxClients checks that a client above --max-clients is refused, and that the next client
// is served. A silent connection does not count.
func TestMaxClients(t *testing.T) {
	noLeak(t)
	s := serve(t, "--max-clients", "1")
	silent := []*net.TCPConn{dialRaw(t, s), dialRaw(t, s)}
	busy := s.client(t, "--job", "bulk", "--size", "1T")
	s.event("bulk.begun")
	s.client(t).fails(1, "the server already has 1 clients", "--max-clients")
	s.event("client.failed", "error", "the server already has 1 clients")
	busy.signal(os.Kill)
	s.event("client.failed", "error", "closed")
	for _, nc := range silent {
		nc.Close()
	}
	s.stillServes(t)
	s.stops()
}

// TestStopWithSilentConnection checks that a silent connection does not count as an interrupted
// client when the server stops.
func TestStopWithSilentConnection(t *testing.T) {
	noLeak(t)
	s := serve(t)
	silent := dialRaw(t, s)
	defer silent.Close()
	silent.SetReadDeadline(testkit.Deadline())
	if _, err := silent.Read(make([]byte, 1)); err != nil { // the server's hello
		t.Fatal(err)
	}
	s.stops()
}
