//go:build !rdma

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// Tests that do not depend on the device run only on soft0, where processes start quickly.

// TestFileBadInput checks the errors of wrong files and folders, before any connection.
func TestFileBadInput(t *testing.T) {
	noLeak(t)
	file, folder := writeFile(t, "file", 10), t.TempDir()
	pipe := filepath.Join(folder, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	hidden := writeFile(t, ".bashrc", 0)
	testBadInput(t, []badInput{
		{"no file", "client --job file 127.0.0.1", 2, []string{"the job file needs --file"}},
		{"another job's", "client --file x 127.0.0.1", 2, []string{"--file is not a flag of the job send, but of: file"}},
		{"empty path", "client --job file --file= 127.0.0.1", 1, []string{"no such file"}},
		{"not there", "client --job file -f /nosuch/file 127.0.0.1", 1, []string{"/nosuch/file: no such file or directory; try: a file that you may read"}},
		{"directory", "client --job file -f " + folder + " 127.0.0.1", 1, []string{folder, "is a directory", "tar"}},
		{"pipe", "client --job file -f " + pipe + " 127.0.0.1", 1, []string{"is a named pipe", "try: a regular file"}},
		{"device", "client --job file -f /dev/zero 127.0.0.1", 1, []string{"is a device"}},
		{"hidden", "client --job file -f " + hidden + " 127.0.0.1", 2, []string{`".bashrc" begins with a dot`, "--name"}},
		{"name with ../", "client --job file -f " + file + " --name ../x 127.0.0.1", 2, []string{`"../x" is a path`, "try: a name without slashes"}},
		{"chunk zero", "client --job file -f " + file + " --chunk 0 127.0.0.1", 2, []string{"chunks of 0 bytes", "--chunk 64K"}},
		{"chunk less than a hash", "client --job file -f " + file + " --chunk 31 127.0.0.1", 2, []string{"chunks of 31 bytes", "at least 32"}},
		{"chunk too large for an SGE", "client --job file -f " + file + " --chunk 4G 127.0.0.1", 2, []string{"chunks of 4G bytes"}},
		{"no folder", "server --dir /nosuch/folder", 1, []string{"--dir: the folder /nosuch/folder: no such file or directory", "try: a folder that exists"}},
		{"a file for a folder", "server --dir " + file, 1, []string{file, "not a directory"}},
		{"no folder to write to", "server --dir /proc", 1, []string{"--dir: create a file in the folder /proc", "may write to"}},
		{"files of less than none", "server --max-file=-1", 2, []string{"-1"}},
	})
}

// TestFileRefused checks that both ends report a file that the server refuses, before any
// data is sent.
func TestFileRefused(t *testing.T) {
	noLeak(t)
	file, folder := writeFile(t, "file", 1000), t.TempDir()
	old := filepath.Join(folder, "old")
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--dir", folder, "--max-file", "2T", "--max-size", "10M")
	huge, tooLarge := writeFile(t, "huge", 0), writeFile(t, "too large", 0)
	for path, size := range map[string]int64{huge: 1 << 40, tooLarge: 3 << 40} {
		if err := os.Truncate(path, size); err != nil { // sparse
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		flags []string
		want  string
	}{
		"name taken":      {[]string{"--file", file, "--name", "old"}, `the server already has a file "old" and does not overwrite it; try: another name`},
		"no room":         {[]string{"--file", huge}, "the file has 1TiB (1099511627776 bytes), but the server's folder has room for "},
		"over the limit":  {[]string{"--file", tooLarge}, "the file has 3T bytes, but the server takes at most 2T; try: a smaller one, or rdma_server --max-file"},
		"chunk too large": {[]string{"--file", file, "--chunk", "11M"}, "chunks have 11M bytes, but the server gives at most 10M; try: rdma_client --chunk 10M"},
	} {
		t.Run(name, func(t *testing.T) {
			c := s.client(t, append([]string{"--job", "file"}, test.flags...)...)
			c.fails(1, test.want)
			if c.find("wr.posted", "msg", "post RDMA_WRITE_WITH_IMM") != nil {
				t.Error("something was sent")
			}
			s.event("client.failed", "error", test.want)
		})
	}
	holds(t, folder, "old")
	if got, err := os.ReadFile(old); err != nil || string(got) != "old" {
		t.Errorf("%q, %v", got, err)
	}
	s.client(t, "--job", "file", "--file", file).succeeds()
	sameContent(t, filepath.Join(folder, "file"), file)
	s.stillServes(t)
	s.stops()

	s = serve(t)
	s.client(t, "--job", "file", "--file", file).fails(1, "this server accepts no files", "try: rdma_server --dir")
	s.event("client.failed", "error", "this server accepts no files")
	s.stops()
}

// TestFileOneNameForMany lets several clients send different files with one name at once.
// One must succeed with its whole file; the others must report the error.
func TestFileOneNameForMany(t *testing.T) {
	noLeak(t)
	folder := t.TempDir()
	s := serve(t, "--dir", folder)
	var files []string
	var clients []*process
	for i := range 6 {
		files = append(files, writeFile(t, fmt.Sprint("file", i), 200_000))
		clients = append(clients, s.client(t, "--job", "file", "--file", files[i], "--name", "wanted"))
	}
	winner := -1
	for i, c := range clients {
		if c.wait() == 0 {
			if winner >= 0 {
				t.Errorf("clients %d and %d have the name", winner, i)
			}
			winner = i
			continue
		}
		c.fails(1, `the server already has a file "wanted"`)
	}
	if winner < 0 {
		t.Fatal("nobody has the name")
	}
	holds(t, folder, "wanted")
	sameContent(t, filepath.Join(folder, "wanted"), files[winner])
	s.stillServes(t)
	s.stops()
}

// TestFileSizes sends files that are about as large as a chunk or as the ring of slots.
func TestFileSizes(t *testing.T) {
	noLeak(t)
	folder := t.TempDir()
	s := serve(t, "--dir", folder, "--max-size", "1M")
	for name, test := range map[string]struct {
		bytes int
		chunk string
	}{
		"a byte less than a chunk":  {4095, "4K"},
		"one chunk":                 {4096, "4K"},
		"a byte more":               {4097, "4K"},
		"fills the ring":            {15 * 1000, "1000"}, // with the SHA-256
		"one chunk too many for it": {16 * 1000, "1000"},
		"twice round":               {31 * 1000, "1000"},
		"least chunks":              {1000, "32"},
		"three slots":               {1_500_000, "300K"},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, name, test.bytes)
			s.client(t, "--job", "file", "--file", path, "--chunk", test.chunk).succeeds()
			sameContent(t, filepath.Join(folder, name), path)
		})
	}
	s.stillServes(t)
	s.stops()
}

// TestFileLimit limits the size of the server's files, so that a write fails during a
// transfer. Unlike a full disk this needs no root.
func TestFileLimit(t *testing.T) {
	noLeak(t)
	folder := t.TempDir()
	s := serveBy(t, []string{"prlimit", "--fsize=100000"}, "--dir", folder)
	const want = "write to the folder "
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

// TestFileLargerThanMemory checks that both ends use less memory than the file has bytes.
func TestFileLargerThanMemory(t *testing.T) {
	noLeak(t)
	const size, most = 256 << 20, 128 << 20
	path, folder := writeFile(t, "large", 1000), t.TempDir()
	if err := os.Truncate(path, size); err != nil { // the rest is sparse
		t.Fatal(err)
	}
	s := serve(t, "--once", "--dir", folder)
	c := s.client(t, "--job", "file", "--file", path)
	peaks := map[*process]<-chan int{c: watchMemory(c), s.process: watchMemory(s.process)}
	c.succeeds()
	s.succeeds()
	for p, peak := range peaks {
		if used := testkit.Receive(t, peak, "the memory"); used == 0 || used > most {
			t.Errorf("%s used %d MiB of memory for a file of %d MiB", p.name, used>>20, size>>20)
		}
	}
	if a, b := c.find("file.sent").str("sha256"), s.find("file.stored").str("sha256"); a == "" || a != b {
		t.Errorf("SHA-256 %s at the client, %s at the server", a, b)
	}
	holds(t, folder, "large")
}

// watchMemory returns a channel that gets the peak of a process's resident memory in bytes,
// when the process has ended. The rusage of a child cannot be used, because its peak starts
// at that of this process.
func watchMemory(p *process) <-chan int {
	peak := make(chan int, 1)
	go func() {
		most := 0
		for running := true; running; time.Sleep(5 * time.Millisecond) {
			running = p.running()
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
			if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
				var kib int
				if _, err := fmt.Sscan(rest, &kib); err == nil {
					most = max(most, kib<<10)
				}
			}
		}
		peak <- most
	}()
	return peak
}
