//go:build cabi

package cabi

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLoader loads libibverbs with dlopen. All functions of the installed libibverbs must be there
// under their versions.
func TestLoader(t *testing.T) {
	plugin := filepath.Join(bin, "plugin.so")
	if out, err := exec.Command("cc", "-shared", "-o", plugin, "-x", "c", "/dev/null").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	program := compile(t, "loader", "-Wl,--as-needed", "-Wl,-rpath,$ORIGIN")
	symbols := filepath.Join(bin, "symbols")
	if err := os.WriteFile(symbols, []byte(publicSymbols(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	p := onSoft(t, "bash", "-c", `"$0" <"$1"`, program, symbols)
	p.succeeds()
	if lines := p.output(); len(lines) != 1 || lines[0] != "opened soft0" {
		t.Errorf("printed %q", lines)
	}
}

// publicSymbols returns the functions of the installed libibverbs, as lines with version and name.
func publicSymbols(t *testing.T) string {
	t.Helper()
	path, err := exec.Command("cc", "-print-file-name=libibverbs.so").Output()
	if err != nil {
		t.Fatal(err)
	}
	table, err := exec.Command("nm", "-D", "--defined-only", strings.TrimSpace(string(path))).Output()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range regexp.MustCompile(`(?m) T (\w+)@@(IBVERBS_1\.\d+)$`).FindAllStringSubmatch(string(table), -1) {
		lines = append(lines, m[2]+" "+m[1])
	}
	if len(lines) < 70 {
		t.Fatalf("nm found only %d functions in libibverbs", len(lines))
	}
	return strings.Join(lines, "\n") + "\n"
}
