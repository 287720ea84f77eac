// The job file after lost connections: what the server keeps, and what it does not trust.

package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// fakeFile is the data of a sender that goes on: two chunks.
var fakeFile = bytes.Repeat([]byte("rdma "), 2*fakeChunk/5)

// dialAgain connects a sender of fakeFile that has a key, and offers some chunks. It returns the
// chunk with which the server begins.
func dialAgain(t *testing.T, s *server, name, key string, stored int) (f *fakeSender, first uint32) {
	t.Helper()
	f, err := dialSenderWith(t, s, map[string]string{
		"file_name": name, "file_size": strconv.Itoa(len(fakeFile)), "chunk": strconv.Itoa(fakeChunk),
		"file_key": key, "file_stored": strconv.Itoa(stored), "file_prefix": fmt.Sprintf("%x", sha256.Sum256(fakeFile[:stored*fakeChunk])),
	})
	if err != nil {
		t.Fatal(err)
	}
	wc, err := f.WaitRecv(testkit.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return f, wc.Imm()
}

// sendFrom sends the messages of fakeFile from a chunk on, and waits until the server has the file.
func (f *fakeSender) sendFrom(first int) {
	f.t.Helper()
	for n := first; n < 2; n++ {
		f.send(n, uint32(n), fakeFile[n*fakeChunk:][:fakeChunk])
	}
	sum := sha256.Sum256(fakeFile)
	f.send(2, 2, sum[:])
	f.credit(3)
}

// finish ends the job as rdma_client does.
func (f *fakeSender) finish() {
	f.t.Helper()
	if err := f.TCP().Barrier(testkit.Context(f.t), "file stored"); err != nil {
		f.t.Fatal(err)
	}
	if err := f.Finish(testkit.Context(f.t)); err != nil {
		f.t.Fatal(err)
	}
	f.close()
}

// TestResumeAfterTheName loses the connection after the file has its name, and before the client says
// that it knows. The file is delivered once, also if somebody has taken it meanwhile.
func TestResumeAfterTheName(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	for what, test := range map[string]struct {
		take func(folder string) error
		left []string
	}{
		"stays":   {func(string) error { return nil }, []string{"name"}},
		"moved":   {func(f string) error { return os.Rename(filepath.Join(f, "name"), filepath.Join(f, "taken")) }, []string{"taken"}},
		"removed": {func(f string) error { return os.Remove(filepath.Join(f, "name")) }, nil},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, new server: %v", what, restart), func(t *testing.T) {
				folder, key := t.TempDir(), rand.Text()
				s := serve(t, "--dir", folder)
				f, first := dialAgain(t, s, "name", key, 0)
				if first != 0 {
					t.Errorf("the server begins with chunk %d", first)
				}
				f.sendFrom(0)
				if restart {
					s.signal(os.Kill)
					s.wait()
				}
				f.close()
				if restart {
					s = serveAt(t, s.port, "--dir", folder)
				} else {
					s.awaitFailures(1)
				}
				if err := test.take(folder); err != nil {
					t.Fatal(err)
				}
				f, first = dialAgain(t, s, "name", key, 1)
				if first != 2 {
					t.Errorf("the server begins with chunk %d, want 2", first)
				}
				f.sendFrom(2)
				f.finish()
				s.event("run.done")
				holds(t, folder, test.left...)
				s.stillServes(t)
				s.stops()
			})
		}
	}
}

// TestResumeTakesOver connects a client again while the server believes its old connection alive.
func TestResumeTakesOver(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	folder, key := t.TempDir(), rand.Text()
	s := serve(t, "--dir", folder)
	old, _ := dialAgain(t, s, "name", key, 0)
	old.send(0, 0, fakeFile[:fakeChunk])
	old.credit(1)
	f, first := dialAgain(t, s, "name", key, 1)
	if first != 1 {
		t.Errorf("the server begins with chunk %d, want 1", first)
	}
	s.event("client.failed", "error", "the client has connected again to go on with this file")
	old.close()
	f.sendFrom(1)
	f.finish()
	holds(t, folder, "name")
	if got, err := os.ReadFile(filepath.Join(folder, "name")); !bytes.Equal(got, fakeFile) {
		t.Errorf("the file has %d other bytes, %v", len(got), err)
	}
	s.stillServes(t)
	s.stops()
}

// orphaner passes connections to a server. orphan closes the client's part of all of them, so the server
// does not learn that its client is gone.
type orphaner struct {
	port    string
	mu      sync.Mutex
	clients []net.Conn
}

func orphanerTo(t *testing.T, address string) *orphaner {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ipv4, "0"))
	if err != nil {
		t.Fatal(err)
	}
	o := &orphaner{}
	_, o.port, _ = net.SplitHostPort(l.Addr().String())
	var servers []net.Conn
	var dialer net.Dialer
	ctx := testkit.Context(t)
	var over sync.WaitGroup
	over.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			server, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				client.Close()
				continue
			}
			o.mu.Lock()
			o.clients, servers = append(o.clients, client), append(servers, server)
			o.mu.Unlock()
			over.Go(func() { io.Copy(server, client) })
			over.Go(func() {
				io.Copy(client, server)
				client.Close()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		o.orphan()
		o.mu.Lock()
		for _, c := range servers {
			c.Close()
		}
		o.mu.Unlock()
		over.Wait()
	})
	return o
}

func (o *orphaner) orphan() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.clients {
		c.Close()
	}
	o.clients = nil
}

// slowFile makes a file, and returns flags with which it takes a second: a test on a busy host must see the
// job before its end.
func slowFile(t *testing.T) (path string, flags []string) {
	t.Helper()
	path = writeFile(t, "large", 16<<20)
	return path, []string{"--retry", "1m", "--job", "file", "--file", path, "--chunk", "1K"}
}

// partialOf waits until the partial file has more than size bytes, and returns its path.
func partialOf(t *testing.T, folder string, size int64) string {
	t.Helper()
	testkit.Until(t, "growth of the partial file", func() bool { return partialSize(folder) > size })
	found, _ := filepath.Glob(filepath.Join(folder, ".rdma_server-*.part"))
	if len(found) != 1 {
		t.Fatalf("the partial files %q", found)
	}
	return found[0]
}

// TestRetryTakesOver has rdma_client come back while its old connection is still open at the server.
func TestRetryTakesOver(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	folder := t.TempDir()
	path, flags := slowFile(t)
	s := serve(t, "--dir", folder)
	o := orphanerTo(t, s.address())
	c := start(t, "rdma_client", append(flags, "--json", ipv4, device, o.port)...)
	partialOf(t, folder, 512<<10)
	o.orphan()
	c.succeeds()
	if begun := c.all("file.begun"); len(begun) != 2 || begun[1]["first_chunk"].(float64) == 0 {
		t.Errorf("the attempts began with %v", begun)
	}
	s.event("run.done")
	s.awaitFailures(1)
	holds(t, folder, "large")
	sameContent(t, filepath.Join(folder, "large"), path)
	s.stillServes(t)
	s.stops()
}

// TestRetryWithAWrongPrefix changes a byte of the partial file while no server runs.
func TestRetryWithAWrongPrefix(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	folder := t.TempDir()
	path, flags := slowFile(t)
	s := serve(t, "--dir", folder)
	c := s.client(t, flags...)
	partial := partialOf(t, folder, 512<<10)
	s.signal(os.Kill)
	s.wait()
	file, err := os.OpenFile(partial, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err = file.ReadAt(b[:], 100); err == nil {
		_, err = file.WriteAt([]byte{^b[0]}, 100)
	}
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	s = serveAt(t, s.port, "--dir", folder)
	if first := s.event("file.begun")["first_chunk"]; first != 0.0 {
		t.Errorf("the server begins with chunk %v of a wrong file", first)
	}
	c.succeeds()
	s.event("run.done")
	holds(t, folder, "large")
	sameContent(t, filepath.Join(folder, "large"), path)
	s.stops()
}

// TestRetryWithAnotherKey kills a client. Another one that sends the same file begins anew.
func TestRetryWithAnotherKey(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	folder := t.TempDir()
	path, flags := slowFile(t)
	s := serve(t, "--dir", folder)
	dead := s.client(t, flags...)
	partial := partialOf(t, folder, 512<<10)
	dead.signal(os.Kill)
	dead.wait()
	s.awaitFailures(1)
	c := s.client(t, flags...)
	c.succeeds()
	if begun := s.all("file.begun"); len(begun) != 2 || begun[1]["first_chunk"] != 0.0 {
		t.Errorf("the server began with %v", begun)
	}
	s.event("run.done")
	holds(t, folder, filepath.Base(partial), "large")
	sameContent(t, filepath.Join(folder, "large"), path)
	s.stops()
}

// TestRetryAfterTheName kills the server as soon as the file has its name. The client may have heard of it
// or not.
func TestRetryAfterTheName(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	folder := t.TempDir()
	path := writeFile(t, "name", 1<<20)
	s := serve(t, "--dir", folder)
	c := s.client(t, "--retry", "1m", "--job", "file", "--file", path)
	for {
		if _, err := os.Lstat(filepath.Join(folder, "name")); err == nil || !s.running() {
			break
		}
	}
	s.signal(os.Kill)
	s.wait()
	s = serveAt(t, s.port, "--dir", folder)
	c.succeeds()
	sameContent(t, filepath.Join(folder, "name"), path)
	found, err := filepath.Glob(filepath.Join(folder, "[^.]*"))
	if len(found) != 1 {
		t.Errorf("the folder has %q, %v", found, err)
	}
	s.stops()
}

// TestRetryNeverAddsTwice loses the connection of a client with a shared counter, before and after its first add.
func TestRetryNeverAddsTwice(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	port := freePort(t)
	flags := []string{"--json", "--retry", "1m", "--job", "atomic", "--counter", "shared"}
	c := start(t, "rdma_client", append(flags, ipv4, device, port)...)
	c.event("run.again", "error", "connection refused")
	s := serveAt(t, port)
	c.succeeds()
	c = start(t, "rdma_client", append(flags, "--count", "1000000", ipv4, device, port)...)
	c.event("atomic.done")
	s.signal(unix.SIGKILL)
	s.wait()
	s = serveAt(t, port)
	c.fails(1, `attempt 2: the connection was lost after this client had begun to add to the counter "shared", and the job does not add twice; try: `)
	if s.find("job.chosen") != nil {
		t.Error("the client came back")
	}
	s.stops()
}
