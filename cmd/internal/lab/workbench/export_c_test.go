//go:build cgo && !js

package workbench

import (
	"os"
	"path/filepath"
	"testing"
)

// TestExportC compiles the C programs of all sessions.
func TestExportC(t *testing.T) {
	dir, names := exported(t, "c", "session.c")
	cc := "cc"
	if from := os.Getenv("CC"); from != "" {
		cc = from
	}
	for _, name := range names {
		if out, err := command(t, filepath.Join(dir, name), cc, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "session.c"); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
