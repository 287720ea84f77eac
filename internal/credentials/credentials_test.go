package credentials

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMake checks which files there are and who may read them, and that nothing is written over.
func TestMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	now := time.Now()
	if err := Make(dir, nil, now, now.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "--host") {
		t.Error("no host:", err)
	}
	if err := Make(dir, []string{"127.0.0.1", "server.lab"}, now, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for file, mode := range map[string]os.FileMode{
		"ca/ca.crt": 0o644, "ca/ca.key": 0o600,
		"server/tls.crt": 0o644, "server/tls.key": 0o600, "server/ca.crt": 0o644,
		"client/tls.crt": 0o644, "client/tls.key": 0o600, "client/ca.crt": 0o644,
	} {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
		} else if got := info.Mode().Perm(); got&^mode != 0 {
			t.Errorf("%s has the mode %v, want %v", file, got, mode)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "server/ca.key")); err == nil {
		t.Error("the server has the CA's key")
	}
	if err := Make(dir, []string{"127.0.0.1"}, now, now.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "not empty; try: a new directory") {
		t.Error("again:", err)
	}
}
