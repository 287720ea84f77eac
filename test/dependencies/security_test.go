package dependencies

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreatsHaveTests looks up each test, or file of CI, that SECURITY.md names.
func TestThreatsHaveTests(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Threats")
	rows, named := 0, regexp.MustCompile("`([a-z0-9/]+)`((?: (?:Test|Fuzz)\\w+,?)+)")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| who") {
			continue
		}
		rows++
		cells := strings.Split(line, "|")
		found := named.FindAllStringSubmatch(cells[4], -1)
		if len(found) == 0 { // then it names a file, such as CI's
			if _, err := os.Stat(filepath.Join("../..", strings.TrimSpace(cells[4]))); err != nil {
				t.Errorf("a threat without a test: %s", line)
			}
		}
		for _, m := range found {
			for name := range strings.FieldsSeq(strings.ReplaceAll(m[2], ",", " ")) {
				if !hasTest(t, m[1], name) {
					t.Errorf("package %s has no %s", m[1], name)
				}
			}
		}
	}
	if rows < 10 {
		t.Errorf("only %d threats were read", rows)
	}
}

// hasTest reports whether a package has a test.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
