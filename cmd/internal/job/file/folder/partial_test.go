package folder

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// partial opens the partial file of a key and appends to it.
func partial(t *testing.T, f *Folder, key, more string) *File {
	t.Helper()
	n, err := f.Partial(key, "name")
	if err != nil {
		t.Fatal(err)
	}
	have, _ := f.Have(key, "nosuch")
	if err := n.Resume(have); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Write([]byte(more)); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPartialFile writes a file in three parts, the last of which begins before the end of the second.
func TestPartialFile(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, path string) {
		key := rand.Text()
		n := partial(t, f, key, "one ")
		n.Keep()
		n.Close()
		n = partial(t, f, key, "two and more")
		n.Keep()
		n.Close()
		if have, named := f.Have(key, "name"); have != 16 || named {
			t.Errorf("%d bytes, named: %v", have, named)
		}
		n, err := f.Partial(key, "name")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(n.Prefix(8)); string(got) != "one two " || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if err := n.Resume(8); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Write([]byte("three")); err != nil {
			t.Fatal(err)
		}
		// The connection is lost after Commit. The next one commits again.
		if err := n.Commit("name"); err != nil {
			t.Fatal(err)
		}
		n.Keep()
		n.Close()
		if have, named := f.Have(key, "name"); have != 13 || !named {
			t.Errorf("%d bytes, named: %v", have, named)
		}
		if n, err = f.Partial(key, "name"); err != nil {
			t.Fatal(err)
		}
		if err := n.Commit("name"); err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if got := entries(t, path); fmt.Sprint(got) != "[name]" {
			t.Errorf("the folder has %q", got)
		}
		if got, err := os.ReadFile(filepath.Join(path, "name")); string(got) != "one two three" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		// Another client's file does not get the name.
		n = partial(t, f, rand.Text(), "one two three")
		if err := n.Commit("name"); err == nil || !strings.Contains(err.Error(), "already has a file") {
			t.Error(err)
		}
		n.Close()
	})
}

// TestCompleteFileStays lets a client come back for another name after Commit. The file must not change.
func TestCompleteFileStays(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, path string) {
		key := rand.Text()
		n := partial(t, f, key, "complete")
		if err := n.Commit("name"); err != nil {
			t.Fatal(err)
		}
		n.Keep() // the connection is lost
		n.Close()
		n, err := f.Partial(key, "other")
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Resume(0); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := n.Commit("other"); err != nil {
			t.Error(err)
		}
		n.Close()
		for name, want := range map[string]string{"name": "complete", "other": "x"} {
			if got, err := os.ReadFile(filepath.Join(path, name)); string(got) != want || err != nil {
				t.Errorf("the file %s has %q, want %q, %v", name, got, want, err)
			}
		}
		if got, want := fmt.Sprint(entries(t, path)), fmt.Sprint([]string{deliveredFor(key, "name"), "name", "other"}); got != want {
			t.Errorf("the folder has %s, want %s", got, want)
		}
		f.sweep(-time.Minute)
		if got := entries(t, path); fmt.Sprint(got) != "[name other]" {
			t.Errorf("the folder has %q", got)
		}
	})
}

// TestDeliveredOnce lets a client come back after Commit, when somebody has moved or removed the file.
func TestDeliveredOnce(t *testing.T) {
	for what, take := range map[string]func(path string) error{
		"moved":   func(path string) error { return os.Rename(filepath.Join(path, "name"), filepath.Join(path, "taken")) },
		"removed": func(path string) error { return os.Remove(filepath.Join(path, "name")) },
	} {
		t.Run(what, func(t *testing.T) {
			both(t, func(t *testing.T, f *Folder, path string) {
				key := rand.Text()
				n := partial(t, f, key, "complete")
				if err := n.Commit("name"); err != nil {
					t.Fatal(err)
				}
				n.Keep() // the connection is lost
				n.Close()
				if err := take(path); err != nil {
					t.Fatal(err)
				}
				if have, named := f.Have(key, "name"); have != 8 || !named {
					t.Errorf("%d bytes, named: %v", have, named)
				}
				n, err := f.Partial(key, "name")
				if err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(n.Prefix(8)); string(got) != "complete" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
				if err := n.Commit("name"); err != nil {
					t.Error(err)
				}
				if err := n.Close(); err != nil {
					t.Error(err)
				}
				if got, want := fmt.Sprint(entries(t, path)), map[string]string{"moved": "[taken]", "removed": "[]"}[what]; got != want {
					t.Errorf("the folder has %s, want %s", got, want)
				}
			})
		})
	}
}

// TestOldPartialFilesAreRemoved checks that only hidden files of servers go, and only old ones.
func TestOldPartialFilesAreRemoved(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, path string) {
		now := time.Now()
		old := now.Add(-Kept - time.Minute)
		for _, name := range []string{hiddenName(), "file", ".hidden"} {
			if err := os.WriteFile(filepath.Join(path, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(path, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
		key := rand.Text()
		n := partial(t, f, key, "x")
		n.Keep()
		n.Close()
		again, err := Open(path, 0) // sweeps
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if got, want := fmt.Sprint(entries(t, path)), fmt.Sprint([]string{".hidden", hiddenFor(key), "file"}); got != want {
			t.Errorf("left: %s, want %s", got, want)
		}
		f.sweep(-time.Minute)
		if got := fmt.Sprint(entries(t, path)); got != "[.hidden file]" {
			t.Errorf("left: %s", got)
		}
	})
}

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"", "x", strings.Repeat("a", keyLength), strings.Repeat("A", keyLength+1), "../" + strings.Repeat("A", keyLength-3), strings.Repeat("*", keyLength)} {
		if err := CheckKey(key); err == nil || !strings.Contains(err.Error(), "the key of the partial file") {
			t.Errorf("%q: %v", key, err)
		}
	}
	if err := CheckKey(rand.Text()); err != nil {
		t.Error(err)
	}
}
