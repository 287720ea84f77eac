package e2e

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	noLeak(t)
	size := "1G"
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
	noLeak(t)
	s := serve(t)
	c := s.client(t, "--timeout", "1s", "--retry", "1m", "--job", "net-stream", "--size", "64G")
	c.event("net.begun")
	s.signal(unix.SIGSTOP)
	c.event("run.again", "error", "the job made no progress for 1s")
	s.signal(unix.SIGCONT)
	c.await("new attempt", func() bool { return len(c.all("net.begun")) > 1 })
	c.signal(unix.SIGTERM)
	c.fails(130, "stopped by the signal terminated")
	s.stillServes(t)
	s.stops()
}

// TestRetryEnds checks that the attempts end, that the error counts them, and that a refusal ends them.
func TestRetryEnds(t *testing.T) {
	noLeak(t)
	c := start(t, "rdma_client", "--json", "--retry", "500ms", ipv4, device, freePort(t))
	within(t, 8*time.Second, "giving up", func() {
		c.fails(1, "the last one within --retry 500ms: ", "connection refused; ", "is rdma_server running there?", "attempt ")
	})
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
	noLeak(t)
	folder := t.TempDir()
	path := writeFile(t, "large", 96<<20)
	flags := []string{"--dir", folder}
	s := serve(t, flags...)
	c := s.client(t, "--retry", "1m", "--job", "file", "--file", path, "--chunk", "16K")
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
		eventually(t, func() bool { return partialSize(folder) > int64(first)<<14+(16<<20) }, func() string { return "the partial file does not grow" })
		s.signal(os.Kill)
		s.wait()
		s = serveAt(t, s.port, flags...)
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

// TestRetryAfterAChange changes a byte of the partial file. The file then begins anew.
func TestRetryAfterAChange(t *testing.T) {
	noLeak(t)
	folder := t.TempDir()
	path := writeFile(t, "large", 64<<20)
	s := serve(t, "--dir", folder)
	c := s.client(t, "--retry", "1m", "--job", "file", "--file", path, "--chunk", "16K")
	eventually(t, func() bool { return partialSize(folder) > 16<<20 }, func() string { return "the partial file does not grow" })
	s.signal(os.Kill)
	s.wait()
	changeByte(t, partialPath(folder), 1<<20)
	s = serveAt(t, s.port, "--dir", folder)
	c.succeeds()
	if first := s.event("file.begun")["first_chunk"]; first != 0.0 {
		t.Errorf("the server begins with chunk %v", first)
	}
	s.event("run.done")
	holds(t, folder, "large")
	sameContent(t, filepath.Join(folder, "large"), path)
	s.stops()
}

// TestRetryTakesOver cuts the client off in such a way that the server does not notice. The client comes
// back, and the server ends the old connection.
func TestRetryTakesOver(t *testing.T) {
	noLeak(t)
	folder := t.TempDir()
	path := writeFile(t, "large", 64<<20)
	s := serve(t, "--dir", folder)
	between := passOn(t, s.address())
	c := start(t, "rdma_client", "--json", "--retry", "1m", "--job", "file", "--file", path, "--chunk", "16K", ipv4, device, between.port)
	eventually(t, func() bool { return partialSize(folder) > 16<<20 }, func() string { return "the partial file does not grow" })
	between.cutClient()
	c.succeeds()
	s.event("client.failed", "error", "the client has connected again to go on with this file")
	s.await("success", func() bool { return s.find("run.done") != nil })
	holds(t, folder, "large")
	sameContent(t, filepath.Join(folder, "large"), path)
	s.held.expect(t, s)
	s.stops()
}

// middle passes bytes between clients and a server.
type middle struct {
	port string
	mu   sync.Mutex
	all  []net.Conn
	last net.Conn // the last client's
	over sync.WaitGroup
}

func passOn(t *testing.T, server string) *middle {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ipv4, "0"))
	if err != nil {
		t.Fatal(err)
	}
	m := &middle{}
	_, m.port, _ = net.SplitHostPort(l.Addr().String())
	m.over.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			to, err := net.DialTimeout("tcp", server, limit)
			if err != nil {
				client.Close()
				continue
			}
			m.mu.Lock()
			m.all, m.last = append(m.all, client, to), client
			m.mu.Unlock()
			m.over.Go(func() { io.Copy(to, client) })
			m.over.Go(func() { io.Copy(client, to) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		m.mu.Lock()
		for _, c := range m.all {
			c.Close()
		}
		m.mu.Unlock()
		m.over.Wait()
	})
	return m
}

// cutClient ends the last client's connection, and not the server's.
func (m *middle) cutClient() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last.Close()
}

// changeByte changes a byte of a file.
func changeByte(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// partialPath returns the path of the hidden file in a folder, or "".
func partialPath(folder string) string {
	found, _ := filepath.Glob(filepath.Join(folder, ".rdma_server-*"))
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

// partialSize returns the size of the hidden file in a folder, or 0.
func partialSize(folder string) int64 {
	info, err := os.Stat(partialPath(folder))
	if err != nil {
		return 0
	}
	return info.Size()
}
