//go:build unix

package preload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
)

func TestWithShim(t *testing.T) {
	for _, c := range []struct{ before, want string }{
		{"", "/x/shim.so"},
		{"/x/shim.so", "/x/shim.so"},
		{"libasan.so", "libasan.so:/x/shim.so"}, // a sanitizer stays the first
		{"a.so b.so", "a.so:b.so:/x/shim.so"},
		{"/x/shim.so:a.so", "/x/shim.so:a.so"}, // rawverbs run -- rawverbs run -- …
	} {
		if got := withShim(c.before, "/x/shim.so"); got != c.want {
			t.Errorf("withShim(%q) is %q, want %q", c.before, got, c.want)
		}
	}
}

// TestVariablesWithoutLibraries checks the error of a rawverbs that was built without them: this
// test's program is one.
func TestVariablesWithoutLibraries(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&Settings{Device: "soft0"}).variables()
	if err == nil || !strings.Contains(err.Error(), filepath.Dir(program)) || !strings.Contains(err.Error(), "try: make libraries") {
		t.Errorf("variables returned %v", err)
	}
}

func TestRunWithAnotherDevice(t *testing.T) {
	for _, device := range []string{"mlx5_0", "", "soft1"} {
		err := (&Settings{Device: device}).Run([]string{writeScript(t, "#!/bin/sh\n")})
		if !errors.As(err, new(usage.Error)) || !strings.Contains(err.Error(), "try: soft0") {
			t.Errorf("--device %q: %v", device, err)
		}
	}
}

func TestCapture(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old.pcap")
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if file, err := (&Settings{PCAP: old}).capture(); err != nil || file != old {
		t.Errorf("capture returned %q, %v", file, err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old capture is still there: %v", err)
	}
	inUse, err := os.Create(old)
	if err != nil {
		t.Fatal(err)
	}
	defer inUse.Close()
	if err := unix.Flock(int(inUse.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Settings{PCAP: old}).capture(); err == nil || !strings.Contains(err.Error(), "try: another file") {
		t.Errorf("a file that another program writes: %v", err)
	}
	if _, err := os.Stat(old); err != nil {
		t.Errorf("the other program's file: %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{link, dir} {
		if _, err := (&Settings{PCAP: name}).capture(); err == nil || !strings.Contains(err.Error(), "is not a file; try: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(link); err != nil {
		t.Error("--pcap removed what is not its file:", err)
	}
	_, err = (&Settings{PCAP: filepath.Join(dir, "nosuch", "x.pcap")}).capture()
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "try: a file in a folder") {
		t.Errorf("a file in no folder: %v", err)
	}
}
