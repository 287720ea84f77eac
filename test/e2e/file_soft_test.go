//go:build !rdma

package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The disk takes no more in the midst of a file, as far as a test can have that
// without being root: the server's files may have but so many bytes.
func TestFileLimit(t *testing.T) {
	noLeak(t)
	folder := t.TempDir()
	s := serveBy(t, []string{"prlimit", "--fsize=100000"}, "--dir", folder)
	const want = "writing to the folder "
	c := s.client(t, "--job", "file", "--file", writeFile(t, "too large", 100_001), "--chunk", "1000")
	c.fails(1, want, "file too large; try: a smaller file", "ulimit -f")
	s.event("client.failed", "error", want)
	holds(t, folder)
	fits := writeFile(t, "fits", 100_000)
	s.client(t, "--job", "file", "--file", fits).succeeds()
	sameContent(t, filepath.Join(folder, "fits"), fits)
	s.stillServes(t)
	s.stops()
}

// A file that is larger than the memory that is used for it, at both ends.
func TestFileLargerThanMemory(t *testing.T) {
	noLeak(t)
	const size, most = 256 << 20, 128 << 20
	path, folder := writeFile(t, "large", 1000), t.TempDir()
	if err := os.Truncate(path, size); err != nil { // the rest is a hole
		t.Fatal(err)
	}
	s := serve(t, "--once", "--dir", folder)
	c := s.client(t, "--job", "file", "--file", path)
	c.succeeds()
	s.succeeds()
	for _, p := range []*process{c, s.process} {
		if used := p.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; used > most {
			t.Errorf("%s used %d MiB of memory for a file of %d MiB", p.name, used>>20, size>>20)
		}
	}
	if a, b := c.find("file.sent").str("sha256"), s.find("file.stored").str("sha256"); a == "" || a != b {
		t.Errorf("SHA-256 %s at the client, %s at the server", a, b)
	}
	holds(t, folder, "large")
}
