package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOnlyRegularFilesAreSent(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	if err := unix.Mkfifo(in("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in("file"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "file", "linkToPipe": "pipe", "dangling": "nosuch", "loop": "loop"} {
		if err := os.Symlink(to, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"":               "no such file or directory; try: a file that you may read",
		in("nosuch"):     "no such file or directory",
		in("dangling"):   "no such file or directory",
		in("loop"):       "too many levels of symbolic links",
		in("file/x"):     "not a directory",
		folder:           "is a directory, but only regular files can be sent; try: one of its files, or a tar file",
		in("pipe"):       "is a named pipe, but only regular files can be sent; try: a regular file",
		in("linkToPipe"): "is a named pipe",
		"/dev/zero":      "is a device or a socket",
	} {
		s, err := openSource(path)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	s, err := openSource(in("link"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.size() != 5 {
		t.Errorf("%d bytes", s.size())
	}
}

// TestAFileThatChanges changes a file after its first bytes were read.
func TestAFileThatChanges(t *testing.T) {
	long := []byte(strings.Repeat("x", 1000))
	tests := map[string]struct {
		change func(path string) error
		want   string // "" means no error
	}{
		"stays":   {func(string) error { return nil }, ""},
		"grows":   {func(p string) error { return os.WriteFile(p, append(long, 'y'), 0o600) }, "it has become longer"},
		"shrinks": {func(p string) error { return os.Truncate(p, 999) }, "it has become shorter"},
		"empties": {func(p string) error { return os.Truncate(p, 0) }, "it has become shorter"},
		"is written to behind the reader": {func(p string) error {
			f, err := os.OpenFile(p, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("y"), 0)
			return err
		}, "its times show that it was written to"},
		"is written to, and its time set back": {func(p string) error {
			info, err := os.Stat(p)
			if err != nil {
				return err
			}
			if err := os.WriteFile(p, []byte(strings.Repeat("y", 1000)), 0o600); err != nil {
				return err
			}
			return os.Chtimes(p, time.Time{}, info.ModTime())
		}, "its times show that it was written to"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, long, 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond) // the clocks of file systems tick at least every 10 ms
			s, err := openSource(path)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			buf := make([]byte, 500)
			if err := s.fill(buf); err != nil {
				t.Fatal(err)
			}
			if err := test.change(path); err != nil {
				t.Fatal(err)
			}
			err = s.fill(buf)
			if err == nil {
				err = s.unchanged()
			}
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), "the file "+path+" changed while it was sent: "+test.want+"; try: a copy") {
				t.Error(err)
			}
		})
	}
}
