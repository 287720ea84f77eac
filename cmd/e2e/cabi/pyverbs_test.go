//go:build cabi

package cabi

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/errors"
)

// The tests of python3-pyverbs, as Debian 12 installs them.
const (
	pyverbsTests   = "/usr/share/doc/rdma-core/tests"
	pyverbsRelease = "44."
	pyverbsMinimum = 110 // that pass
)

// outcome is what pyverbs_run.py prints of a test.
type outcome struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	Why     string `json:"why"`
}

// TestPyverbs runs pyverbs' own tests. Those of pyverbs_skips.txt must be skipped, and the others
// must pass.
func TestPyverbs(t *testing.T) {
	version, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", "python3-pyverbs").Output()
	if err != nil || !strings.HasPrefix(string(version), pyverbsRelease) {
		t.Fatalf("python3-pyverbs is %q (%v), and pyverbs_skips.txt is for %s; try: Debian 12", version, err, pyverbsRelease)
	}
	folder := filepath.Join(bin, "pyverbs", "tests")
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(folder)) })
	if err := unpack(folder, pyverbsTests); err != nil {
		t.Fatalf("%v; try: apt-get install --reinstall python3-pyverbs, with no path-exclude in /etc/dpkg/dpkg.cfg.d", err)
	}
	run := filepath.Join(bin, "pyverbs", "run.py")
	if err := copyFile(run, filepath.Join("testdata", "pyverbs_run.py")); err != nil {
		t.Fatal(err)
	}
	p := onSoft(t, "env", "PYTHONDONTWRITEBYTECODE=1", "python3", run, folder, "--dev", "soft0")
	if status := p.status(); status != 0 {
		t.Fatalf("exit status %d", status)
	}
	skips := readSkips(t)
	passed := 0
	for _, line := range p.output() {
		var o outcome
		if json.Unmarshal([]byte(line), &o) != nil {
			continue // the tests themselves print little
		}
		o.ID = strings.TrimPrefix(o.ID, "tests.")
		s, listed := skips[o.ID]
		delete(skips, o.ID)
		switch {
		case o.Outcome == "ok" && !listed, o.Outcome == "skipped" && listed && o.Why == s.words && !s.lifted:
		case o.Outcome == "ok" && s.lifted:
		case o.Outcome == "ok":
			t.Errorf("%s passes, but pyverbs_skips.txt has it as skipped: %s", o.ID, s.words)
		case o.Outcome == "skipped":
			t.Errorf("%s is skipped: %q; pyverbs_skips.txt has %q, lifted here: %v", o.ID, o.Why, s.words, s.lifted)
		default:
			t.Errorf("%s: %s\n%s", o.ID, o.Outcome, o.Why)
		}
		if o.Outcome == "ok" {
			passed++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(skips)) {
		t.Errorf("pyverbs_skips.txt has %s, which did not run", id)
	}
	if passed < pyverbsMinimum {
		t.Errorf("%d tests passed; want at least %d", passed, pyverbsMinimum)
	}
	t.Logf("%d tests passed", passed)
}

// unpack copies a folder and decompresses its files. Debian compresses the longer ones.
func unpack(to, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		data, err := contents(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, strings.TrimSuffix(e.Name(), ".gz")), data, 0o644)
		}
		if err != nil {
			return errors.WithMessage(err, e.Name())
		}
	}
	return nil
}

func contents(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if !strings.HasSuffix(name, ".gz") {
		return io.ReadAll(file)
	}
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unzipped)
}

// skip is a row of pyverbs_skips.txt.
type skip struct {
	words  string // that the test prints
	lifted bool   // this machine meets the condition under which the test passes
}

// lifting has the conditions of pyverbs_skips.txt.
var lifting = map[string]func() bool{
	"huge pages": func() bool {
		n, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
		return err == nil && strings.TrimSpace(string(n)) != "0"
	},
}

// readSkips returns the table by test.
func readSkips(t *testing.T) map[string]skip {
	table, err := os.ReadFile(filepath.Join("testdata", "pyverbs_skips.txt"))
	if err != nil {
		t.Fatal(err)
	}
	skips := make(map[string]skip)
	for group := range strings.SplitSeq(string(table), "\n\n") {
		var s skip
		reasoned := false
		for line := range strings.Lines(group) {
			line = strings.TrimSuffix(line, "\n")
			key, value, _ := strings.Cut(line, ": ")
			switch {
			case strings.HasPrefix(line, "#"):
			case key == "skipped":
				s.words = value
			case key == "because":
				reasoned = value != ""
			case key == "unless":
				if lifting[value] == nil {
					t.Fatalf("pyverbs_skips.txt: the condition %q is none of %v", value, slices.Sorted(maps.Keys(lifting)))
				}
				s.lifted = lifting[value]()
			case strings.HasPrefix(line, "\t"):
				id := strings.TrimPrefix(line, "\t")
				if _, twice := skips[id]; twice || !reasoned || s.words == "" {
					t.Fatalf("pyverbs_skips.txt: %s has no reason, or is there twice", id)
				}
				skips[id] = s
			case line != "":
				t.Fatalf("pyverbs_skips.txt: cannot read %q", line)
			}
		}
	}
	return skips
}
