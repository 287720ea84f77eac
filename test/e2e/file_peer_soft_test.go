//go:build !rdma

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
)

// TestFileHostileNames sends names that rdma_client does not send. The server must refuse
// them itself.
func TestFileHostileNames(t *testing.T) {
	noLeak(t)
	above := t.TempDir()
	folder := filepath.Join(above, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--dir", folder)
	tests := map[string]string{
		"":                         "is empty",
		".":                        "begins with a dot",
		"..":                       "begins with a dot",
		"../beside":                "is a path",
		above + "/beside":          "is a path",
		"a/../../beside":           "is a path",
		".hidden":                  "begins with a dot",
		"-rf":                      "begins with a dash",
		" ":                        "a space",
		"no\u00a0break":            "U+00A0",
		strings.Repeat("x", 255-7): "", // a file system may allow less; the error has a remedy
	}
	for name, want := range tests {
		f, err := dialSender(t, s, name, 1)
		if want == "" {
			if err == nil {
				f.close()
			}
			if err != nil && !strings.Contains(err.Error(), "; try: ") {
				t.Errorf("%q: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
		s.event("client.failed", "error", want)
	}
	s.awaitFailures(len(tests))
	holds(t, folder)
	holds(t, above, "folder")
	s.stops()
}

// TestFileHostileSizes sends impossible sizes and chunks.
func TestFileHostileSizes(t *testing.T) {
	noLeak(t)
	folder := t.TempDir()
	s := serve(t, "--dir", folder)
	for _, size := range []int64{-1, 1 << 62} {
		if _, err := dialSender(t, s, "name", size); err == nil {
			t.Errorf("a file of %d bytes was accepted", size)
		}
	}
	for _, params := range []map[string]string{
		{},
		{"file_name": "x", "file_size": "1"},
		{"file_name": "x", "file_size": "1", "chunk": "0"},
		{"file_name": "x", "file_size": "1", "chunk": "99999999999999999999"},
		{"file_name": "x", "file_size": "one", "chunk": "64"},
		{"file_name": "x", "file_size": "1", "chunk": "100000000"},
	} {
		dev := openDevice(t)
		_, err := rc.Dial(testkit.Context(t), s.address(), rc.Config{Device: dev, Job: "file", Params: params, Timeout: testkit.Limit})
		dev.Close()
		if err == nil || !strings.Contains(err.Error(), "; try: ") {
			t.Errorf("%v: %v", params, err)
		}
	}
	holds(t, folder)
	s.stillServes(t)
	s.stops()
}

// TestFileChanges changes the file when half of it is sent. The client must notice and report
// the change to the server instead of sending the hash.
func TestFileChanges(t *testing.T) {
	noLeak(t)
	const size = 20 * fakeChunk
	for name, change := range map[string]func(path string) error{
		"it has become shorter":                 func(path string) error { return os.Truncate(path, size/2) },
		"it has become longer":                  func(path string) error { return os.Truncate(path, size+1) },
		"its times show that it was written to": func(path string) error { return os.WriteFile(path, make([]byte, size), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, "file", size)
			k := listenTaker(t)
			c := k.sender(path)
			time.Sleep(20 * time.Millisecond) // the clocks of file systems tick at least every 10 ms
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			k.credit(fakeSlots)
			want := "the file " + path + " changed while it was sent: " + name
			c.fails(1, want, "; try: a copy of it")
			for err := error(nil); ; {
				if _, err = k.conn.WaitRecv(testkit.Context(t)); err != nil {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("the server got: %v", err)
					}
					return
				}
			}
		})
	}
}
