//go:build !js

package workbench

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exported writes every session as a program of a language, each in a folder of its own, and
// returns the names of the folders.
func exported(t *testing.T, language, file string) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	for name, f := range every() {
		s := played(t, f.Setup, f.Actions)
		text, err := s.Program(language)
		if err != nil {
			t.Fatal(err)
		}
		name = strings.ReplaceAll(name, " ", "-")
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, file), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return dir, names
}

func command(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// runs are the sessions whose programs are run: their results do not depend on packets that the
// user changed, nor on how soon soft0's ACKs come.
var runs = []string{"lesson-windows", "lesson-rdma", "lesson-errors", "lesson-srq", "mistake-bad-rkey", "mistake-receive-too-small"}

// TestExportGo compiles the Go programs of all sessions, and runs some of them on soft0. A program
// fails if a result differs from the laboratory's.
func TestExportGo(t *testing.T) {
	dir, names := exported(t, "go", "main.go")
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, versions, _ := strings.Cut(string(module), "\n")
	text := "module session\n" + versions + "\nrequire github.com/rawverbs/rawverbs v0.0.0\nreplace github.com/rawverbs/rawverbs => " + root + "\n"
	for name, content := range map[string]string{"go.mod": text, "go.sum": string(sums)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := command(t, dir, "go", "vet", "-mod=mod", "./..."); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range runs {
		if !slices.Contains(names, name) {
			t.Errorf("there is no session %s", name)
			continue
		}
		if out, err := command(t, dir, "go", "run", "-mod=mod", "./"+name); err != nil || !strings.Contains(out, "\n0 results differ from the laboratory's\n") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
