package dependencies

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestDocListsExamples: the doc.go of each public package lists its Example functions, in order.
func TestDocListsExamples(t *testing.T) {
	function := regexp.MustCompile(`(?m)^func (Example\w*)\(\)`)
	listed := regexp.MustCompile(`(?m)^//\t(Example\w*)  `)
	for _, name := range []string{"verbs", "qpstate", "oob", "rc", "rnet", "softroce"} {
		files, err := filepath.Glob(filepath.Join("../..", name, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", name, files, err)
		}
		var have []string
		for _, file := range files {
			have = append(have, find(t, file, function)...)
		}
		slices.Sort(have)
		if got := find(t, filepath.Join("../..", name, "doc.go"), listed); !slices.Equal(got, have) {
			t.Errorf("%s/doc.go lists the examples\n%q, the package has\n%q", name, got, have)
		}
	}
}

// find returns what the pattern's group matches in a file.
func find(t *testing.T, file string, pattern *regexp.Regexp) (found []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range pattern.FindAllStringSubmatch(string(text), -1) {
		found = append(found, match[1])
	}
	return found
}
