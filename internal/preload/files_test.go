//go:build unix

package preload

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesAreMended: what a cleaner of temporary files removed, or somebody changed, is written again.
func TestFilesAreMended(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", t.TempDir())
	s := &Settings{Device: "soft:eth0"}
	folder, err := s.files()
	if err != nil {
		t.Fatal(err)
	}
	device := filepath.Join(folder, "sys/class/infiniband/soft-eth0") // a link
	guid := filepath.Join(device, "node_guid")
	want, err := os.ReadFile(guid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(guid, []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(device); err != nil {
		t.Fatal(err)
	}
	again, err := s.files()
	if err != nil || again != folder {
		t.Fatalf("got %s, %v, want %s", again, err, folder)
	}
	if got, err := os.ReadFile(guid); err != nil || string(got) != string(want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestFolderOfOthers: others may have taken the folder's name, or may write to it and could give a program any
// file. The device's files are then in a new folder, which the next program shares.
func TestFolderOfOthers(t *testing.T) {
	elsewhere := t.TempDir()
	cases := map[string]func(folder string) error{
		"writable by others": func(folder string) error { return os.Chmod(folder, 0o777) },
		"a file":             func(folder string) error { return errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600)) },
		"a link":             func(folder string) error { return errors.Join(os.RemoveAll(folder), os.Symlink(elsewhere, folder)) },
	}
	if os.Getuid() == 0 { // only root can give a folder away
		cases["another user's"] = func(folder string) error { return os.Chown(folder, 65534, -1) }
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("XDG_RUNTIME_DIR", "")
			t.Setenv("TMPDIR", temporary)
			s := &Settings{Device: "soft0"}
			first, err := s.files()
			if err != nil {
				t.Fatal(err)
			}
			taken := filepath.Dir(first)
			if err := spoil(taken); err != nil {
				t.Fatal(err)
			}
			folder, err := s.files()
			if err != nil || filepath.Dir(folder) == taken || filepath.Dir(filepath.Dir(folder)) != temporary {
				t.Fatalf("got %s, %v, while %s is not this user's", folder, err, taken)
			}
			if again, err := s.files(); err != nil || again != folder {
				t.Errorf("the second program got %s, %v, want %s", again, err, folder)
			}
		})
	}
}

// TestRuntimeFolder: a user's own folder for files of running programs comes first, if it may be used. Root's programs may
// give up their rights, and then could not read it.
func TestRuntimeFolder(t *testing.T) {
	runtime, temporary := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for set, want := range map[string]string{runtime: runtime, "": temporary, "/nonexistent": temporary} {
		if os.Getuid() == 0 {
			want = temporary
		}
		t.Setenv("XDG_RUNTIME_DIR", set)
		folder, err := (&Settings{Device: "soft0"}).files()
		if err != nil || !strings.HasPrefix(folder, want+"/") {
			t.Errorf("XDG_RUNTIME_DIR=%s: got %s, %v, want a folder in %s", set, folder, err, want)
		}
	}
}

// TestFolderTooLong: the library has room for a path of limited length.
func TestFolderTooLong(t *testing.T) {
	temporary := filepath.Join(t.TempDir(), strings.Repeat("a", 200), strings.Repeat("b", 200))
	if err := os.MkdirAll(temporary, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", temporary)
	if folder, err := (&Settings{Device: "soft0"}).files(); err == nil || !strings.Contains(err.Error(), "try: a TMPDIR with a shorter path") {
		t.Errorf("got %s, %v", folder, err)
	}
}
