//go:build !rdma

// The job file, where the device makes no difference: these tests run on soft0, where processes start quickly.

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestFileBadInput checks the errors of wrong files and folders, before any connection. cmd/internal/job/file and
// cmd/internal/job/file/folder have the tables.
func TestFileBadInput(t *testing.T) {
	noLeak(t)
	file := writeFile(t, "file", 10)
	testBadInput(t, []badInput{
		{"no file", "client --job file 127.0.0.1", 2, []string{"the job file needs --file"}},
		{"another job's", "client --file x 127.0.0.1", 2, []string{"--file is not a flag of the job send, but of: file"}},
		{"not there", "client --job file -f /nosuch/file 127.0.0.1", 1, []string{"/nosuch/file: no such file or directory; try: a file that you may read"}},
		{"hidden", "client --job file -f " + writeFile(t, ".bashrc", 0) + " 127.0.0.1", 2, []string{`".bashrc" begins with a dot`, "--name"}},
		{"name with ../", "client --job file -f " + file + " --name ../x 127.0.0.1", 2, []string{`"../x" is a path`, "try: a name without slashes"}},
		{"chunk zero", "client --job file -f " + file + " --chunk 0 127.0.0.1", 2, []string{"chunks of 0 bytes", "--chunk 64K"}},
		{"chunk less than a hash", "client --job file -f " + file + " --chunk 31 127.0.0.1", 2, []string{"chunks of 31 bytes", "at least 32"}},
		{"chunk too large for an SGE", "client --job file -f " + file + " --chunk 4G 127.0.0.1", 2, []string{"chunks of 4G bytes"}},
		{"no folder", "server --dir /nosuch/folder", 1, []string{"--dir: the folder /nosuch/folder: no such file or directory", "try: a folder that exists"}},
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

// TestFileHostileOffers offers what rdma_client does not. The server must refuse it itself.
func TestFileHostileOffers(t *testing.T) {
	noLeak(t)
	above := t.TempDir()
	folder := filepath.Join(above, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--dir", folder)
	for offer, want := range map[[3]string]string{ // name, size and chunk
		{}:                                 "",
		{"", "1", "64"}:                    "is empty",
		{"../beside", "1", "64"}:           "is a path",
		{above + "/beside", "1", "64"}:     "is a path",
		{".hidden", "1", "64"}:             "begins with a dot",
		{"x", "1"}:                         "chunk",
		{"x", "1", "0"}:                    "chunk",
		{"x", "1", "99999999999999999999"}: "chunk",
		{"x", "1", "100000000"}:            "chunk",
		{"x", "one", "64"}:                 "size",
		{"x", "-1", "64"}:                  "size",
		{"x", "4611686018427387904", "64"}: "the server takes at most 16G",
	} {
		params := map[string]string{}
		for i, key := range []string{"file_name", "file_size", "chunk"} {
			if offer[i] != "" || want == "is empty" {
				params[key] = offer[i]
			}
		}
		f, err := dialSenderWith(t, s, params)
		if err == nil {
			f.close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "; try: ") {
			t.Errorf("%q: %v; want %q", offer, err, want)
		}
	}
	holds(t, folder)
	holds(t, above, "folder")
	s.stillServes(t)
	s.stops()
}

// TestFileChanges changes the file when half of it is sent. The client must report the change to the server instead of
// sending the hash.
func TestFileChanges(t *testing.T) {
	noLeak(t)
	path := writeFile(t, "file", 20*fakeChunk)
	k := listenTaker(t)
	c := k.sender(path)
	if err := os.Truncate(path, 20*fakeChunk+1); err != nil {
		t.Fatal(err)
	}
	k.credit(fakeSlots)
	want := "the file " + path + " changed while it was sent: it has become longer"
	c.fails(1, want, "; try: a copy of it")
	for err := error(nil); ; {
		if _, err = k.conn.WaitRecv(testkit.Context(t)); err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the server got: %v", err)
			}
			return
		}
	}
}
