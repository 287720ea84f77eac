//go:build unix

package preload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesAreMended: what a cleaner of temporary files removed, or somebody changed, is written again.
func TestFilesAreMended(t *testing.T) {
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

// TestFolderOfOthers: a folder that others may write to could give a program any file.
func TestFolderOfOthers(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	s := &Settings{Device: "soft0"}
	folder, err := s.files()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(folder), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := s.files(); err == nil || !strings.Contains(err.Error(), "try: removing it") {
		t.Errorf("got %v", err)
	}
}
