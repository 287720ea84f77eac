package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// both runs a test with unnamed files, if the file system supports them, and with hidden
// files.
func both(t *testing.T, test func(t *testing.T, f *Folder, path string)) {
	for _, unnamed := range []bool{true, false} {
		t.Run(fmt.Sprintf("unnamed=%v", unnamed), func(t *testing.T) {
			path := t.TempDir()
			f, err := Open(path, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			f.unnamed = f.unnamed && unnamed
			test(t, f, path)
		})
	}
}

func create(t *testing.T, f *Folder, content string) *File {
	t.Helper()
	n, err := f.Create()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	return n
}

// entries returns the names in a folder, including hidden names.
func entries(t testing.TB, path string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestFileIsNamedWhenComplete(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, path string) {
		n := create(t, f, "half of ")
		for _, name := range entries(t, path) {
			if f.unnamed || !strings.HasPrefix(name, ".rdma_server-") {
				t.Errorf("an unfinished file is called %s", name)
			}
		}
		if _, err := n.Write([]byte("it")); err != nil {
			t.Fatal(err)
		}
		if err := n.Commit("grüße.txt"); err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if got := entries(t, path); fmt.Sprint(got) != "[grüße.txt]" {
			t.Errorf("the folder has %q", got)
		}
		if got, err := os.ReadFile(filepath.Join(path, "grüße.txt")); err != nil || string(got) != "half of it" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestUncommittedFileIsRemoved(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, path string) {
		if err := create(t, f, "x").Close(); err != nil {
			t.Fatal(err)
		}
		if got := entries(t, path); len(got) != 0 {
			t.Errorf("left: %q", got)
		}
	})
}

// TestNothingIsOverwritten checks that an existing file of any kind keeps its name.
func TestNothingIsOverwritten(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, path string) {
		outside := filepath.Join(t.TempDir(), "outside")
		make := map[string]func(string) error{
			"file":      func(p string) error { return os.WriteFile(p, []byte("old"), 0o600) },
			"directory": func(p string) error { return os.Mkdir(p, 0o700) },
			"dangling":  func(p string) error { return os.Symlink(outside, p) },
			"pipe":      func(p string) error { return unix.Mkfifo(p, 0o600) },
		}
		for name, do := range make {
			if err := do(filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
			n := create(t, f, "new")
			for _, err := range []error{f.Admit(name, 1), n.Commit(name)} {
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("already has a file %q", name)) {
					t.Errorf("%s: %v", name, err)
				}
			}
			n.Close()
		}
		if got, _ := os.ReadFile(filepath.Join(path, "file")); string(got) != "old" {
			t.Errorf("the old file has %q", got)
		}
		if _, err := os.Lstat(outside); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("outside: %v", err)
		}
		if got := entries(t, path); len(got) != len(make) {
			t.Errorf("the folder has %q", got)
		}
	})
}

// TestOneFileGetsTheName commits many files with one name at once; one succeeds.
func TestOneFileGetsTheName(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, path string) {
		var winners atomic.Int32
		var winner atomic.Value
		var all sync.WaitGroup
		begin := make(chan struct{})
		for i := range 16 {
			content := fmt.Sprint("of ", i)
			n := create(t, f, content)
			all.Go(func() {
				defer n.Close()
				<-begin
				if n.Commit("wanted") == nil {
					winners.Add(1)
					winner.Store(content)
				}
			})
		}
		close(begin)
		all.Wait()
		got, err := os.ReadFile(filepath.Join(path, "wanted"))
		if err != nil || winners.Load() != 1 || string(got) != winner.Load() {
			t.Errorf("%d got the name; %v won, %q is there, %v", winners.Load(), winner.Load(), got, err)
		}
		if got := entries(t, path); len(got) != 1 {
			t.Errorf("the folder has %q", got)
		}
	})
}

func TestPermissions(t *testing.T) {
	for _, mask := range []int{0, 0o077} {
		both(t, func(t *testing.T, f *Folder, path string) {
			defer unix.Umask(unix.Umask(mask))
			n := create(t, f, "x")
			defer n.Close()
			if err := n.Commit("file"); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(filepath.Join(path, "file"))
			if want := fs.FileMode(0o644 &^ mask); err != nil || info.Mode() != want {
				t.Errorf("mode %v, want %v; %v", info.Mode(), want, err)
			}
		})
	}
}

func TestNoRoom(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, _ string) {
		err := f.Admit("large", 1<<62)
		if err == nil || !strings.Contains(err.Error(), "the file has 4EiB (4611686018427387904 bytes), but the server's folder has room for ") {
			t.Error(err)
		}
		if err := f.Admit("none", 0); err != nil {
			t.Error(err)
		}
	})
}

func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":             "no such file or directory; try: a folder that exists",
		"/nosuch/path": "the folder /nosuch/path: no such file or directory; try:",
		file:           "not a directory; try:",
		"/proc":        "try: a folder that the server may write to",
	} {
		f, err := Open(path, 0)
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q): %v, want %q", path, err, want)
		}
	}
}

// TestTheFolderIsRemoved removes the folder while a file is being written.
func TestTheFolderIsRemoved(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, path string) {
		n := create(t, f, "x")
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := n.Commit("name"); err == nil || !strings.Contains(err.Error(), `name the file "name" in the folder `+path) {
			t.Error(err)
		}
		n.Close()
	})
}
