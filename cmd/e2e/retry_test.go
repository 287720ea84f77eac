package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// serveAt starts a server at a given port.
func serveAt(t *testing.T, port string, flags ...string) *server {
	t.Helper()
	s := &server{process: start(t, "rdma_server", append(flags, "--json", device, port)...), port: port}
	s.event("server.listening")
	s.held.note(s)
	return s
}

// TestRetryWaitsForTheServer starts a client before its server.
func TestRetryWaitsForTheServer(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	port := freePort(t)
	c := start(t, "rdma_client", "--json", "--retry", "1m", ipv4, device, port)
	if r := c.event("run.again", "error", "connection refused"); r["attempt"] != 1.0 {
		t.Error(r)
	}
	s := serveAt(t, port)
	c.succeeds()
	s.stops()
}

// TestRetryAfterADeath ends the server in the middle of a job, by kill -9 and by a signal that it obeys,
// and starts another one at its port.
func TestRetryAfterADeath(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	size := "512M"
	if emulated {
		size = "128M"
	}
	for signal, want := range map[os.Signal]string{os.Kill: "the connection", unix.SIGTERM: `failed at step "stopped" and says: `} {
		t.Run(signal.String(), func(t *testing.T) {
			s := serve(t)
			c := s.client(t, "--retry", "1m", "--job", "net-stream", "--size", size)
			c.event("net.begun")
			s.signal(signal)
			s.wait()
			again := serveAt(t, s.port)
			c.succeeds()
			if c.find("run.again", "error", want) == nil {
				t.Errorf("no new attempt after %q: %v", want, c.all("run.again"))
			}
			again.event("run.done")
			again.stillServes(t)
			again.stops()
		})
	}
}

// TestRetryAfterAStall stops the server for longer than a net job's --timeout. A signal then stops the client.
func TestRetryAfterAStall(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t)
	c := s.client(t, "--timeout", "1s", "--retry", "1m", "--job", "net-stream", "--size", "64G")
	c.event("net.begun")
	s.signal(unix.SIGSTOP)
	c.event("run.again", "error", "the job made no progress for 1s")
	s.signal(unix.SIGCONT)
	c.await("new attempt", func() bool { return len(c.all("net.begun")) > 1 })
	c.signal(unix.SIGTERM)
	c.fails(130, "stopped by SIGTERM")
	s.stillServes(t)
	s.stops()
}

// TestRetryEnds checks that the attempts end, that the error counts them, and that a refusal ends them.
func TestRetryEnds(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	c := start(t, "rdma_client", "--json", "--retry", "500ms", ipv4, device, freePort(t))
	c.fails(1, "the last one within --retry 500ms: ", "connection refused; ", "is rdma_server running there?", "attempt ")
	s := serve(t, "--max-size", "10")
	c = s.client(t, "--retry", "1m", "--size", "11", "-s", "")
	c.fails(1, "the client asks for 11 bytes")
	if c.find("run.again") != nil {
		t.Error("a refusal was followed by another attempt")
	}
	s.held.expect(t, s)
	s.stops()
	start(t, "rdma_client", "--retry=-1s", net.JoinHostPort(ipv4, "1")).fails(2, "--retry -1s is less than no time")
}

// TestRetryResumesAFile kills the server several times while it receives a file, and starts another one at
// its port. The client goes on where it was.
func TestRetryResumesAFile(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	folder := t.TempDir()
	path, flags := slowFile(t)
	s := serve(t, "--dir", folder)
	c := s.client(t, flags...)
	const deaths = 2
	last := 0.0
	for death := range deaths + 1 {
		if key := s.event("job.chosen")["params"].(map[string]any)["file_key"]; key != nil {
			t.Errorf("the server logs the key %v", key)
		}
		first := s.event("file.begun")["first_chunk"].(float64)
		if death > 0 && first <= last {
			t.Errorf("after death %d the server begins with chunk %v, and began with %v before", death, first, last)
		}
		last = first
		if death == deaths {
			break
		}
		partialOf(t, folder, int64(first)<<10+512<<10)
		s.signal(os.Kill)
		s.wait()
		s = serveAt(t, s.port, "--dir", folder)
	}
	c.succeeds()
	if n := len(c.all("run.again")); n < deaths {
		t.Errorf("%d attempts were lost", n)
	}
	s.event("run.done")
	holds(t, folder, "large")
	sameContent(t, filepath.Join(folder, "large"), path)
	s.stillServes(t)
	s.stops()
}

// partialSize returns the size of the hidden file in a folder, or 0.
func partialSize(folder string) int64 {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), ".rdma_server-") {
			return info.Size()
		}
	}
	return 0
}
