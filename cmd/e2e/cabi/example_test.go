//go:build cabi

package cabi

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// runner runs the commands of examples/c-tests in a copy of it. sudo and apt-get do nothing there:
// make setup has installed the packages. A clone of rawverbs is a clone of this repository's HEAD.
type runner struct {
	t       *testing.T
	scratch string
	project string
	path    string
	env     []string
}

const exampleFolder = "../../../examples/c-tests"

func newRunner(t *testing.T) *runner {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	// Both tests clone rawverbs into the same folder, in every run. So Go's cache has its packages.
	r := &runner{t: t, scratch: filepath.Join(root, "out", "example")}
	r.clean()
	t.Cleanup(r.clean)
	r.project = filepath.Join(r.scratch, "project")
	r.path = filepath.Join(r.scratch, "stubs") + ":" + os.Getenv("PATH")
	r.write("stubs/sudo", "#!/bin/sh\n")
	r.write("stubs/apt-get", "#!/bin/sh\n")
	r.write("gitconfig", fmt.Sprintf("[url %q]\n\tinsteadOf = https://github.com/rawverbs/rawverbs\n[safe]\n\tdirectory = *\n", "file://"+root))
	r.env = []string{"GIT_CONFIG_GLOBAL=" + filepath.Join(r.scratch, "gitconfig"), "RUNNER_TEMP=" + r.scratch, "GITHUB_PATH=" + filepath.Join(r.scratch, "path")}
	r.write("path", "")
	return r
}

func (r *runner) clean() {
	r.t.Helper()
	if err := os.RemoveAll(r.scratch); err != nil {
		r.t.Fatal(err)
	}
}

func (r *runner) write(name, text string) {
	r.t.Helper()
	file := filepath.Join(r.scratch, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// copy copies the tracked files of the example into the project's folder.
func (r *runner) copy() {
	r.t.Helper()
	if err := os.CopyFS(r.project, os.DirFS(exampleFolder)); err != nil {
		r.t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(r.project, "mailbox_test")); err != nil { // of an earlier make
		r.t.Fatal(err)
	}
}

// run runs a command in a folder and returns its output. It fails the test if the command fails.
func (r *runner) run(folder, command string) string {
	r.t.Helper()
	shell := exec.CommandContext(r.t.Context(), "bash", "-e", "-c", command)
	shell.Dir = folder
	shell.Env = append(append(os.Environ(), r.env...), "PATH="+r.path, "MAKEFLAGS=", "MAKELEVEL=")
	out, err := shell.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	for _, folder := range strings.Fields(read(r.t, filepath.Join(r.scratch, "path"))) {
		if !strings.Contains(r.path, folder) {
			r.path = folder + ":" + r.path
		}
	}
	return string(out)
}

// passed checks the output of the example's tests.
func passed(t *testing.T, output string) {
	t.Helper()
	for _, test := range []string{"two_processes", "one_process", "beyond_the_end"} {
		if !strings.Contains(output, "ok test_"+test+"\n") {
			t.Errorf("no %q in\n%s", "ok test_"+test, output)
		}
	}
}

// TestExampleWorkflow runs the steps of workflow.yml, as a plain runner does.
func TestExampleWorkflow(t *testing.T) {
	r := newRunner(t)
	r.copy()
	const block = 10 // columns of a command under "run: |"
	step := regexp.MustCompile(fmt.Sprintf(`(?m)^        run: (?:\|\n((?:^ {%d}.*\n)+)|(.+)\n)`, block))
	var last string
	steps := step.FindAllStringSubmatch(read(t, filepath.Join(exampleFolder, "workflow.yml")), -1)
	if len(steps) != 3 {
		t.Fatalf("workflow.yml has %d commands, want 3", len(steps))
	}
	for _, s := range steps {
		last = r.run(r.project, s[1]+s[2])
	}
	passed(t, last)
}

// TestExampleContainer runs the instructions of the Containerfile, with folders of its own in place
// of the container's.
func TestExampleContainer(t *testing.T) {
	r := newRunner(t)
	inside := strings.NewReplacer(
		"/src", filepath.Join(r.scratch, "rawverbs"), "/opt/rawverbs", filepath.Join(r.scratch, "opt"),
		"/usr/local", filepath.Join(r.scratch, "local"), "/project", r.project)
	r.path = filepath.Join(r.scratch, "local/bin") + ":" + r.path
	folder, last := r.scratch, ""
	for line := range strings.Lines(read(t, filepath.Join(exampleFolder, "Containerfile"))) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch rest = inside.Replace(rest); name {
		case "", "#", "FROM", "USER":
		case "RUN":
			r.run(folder, rest)
		case "COPY":
			if from, isStage := strings.CutPrefix(rest, "--from=rawverbs "); isStage {
				r.run(folder, "cp -r "+from)
			} else {
				r.copy()
			}
		case "WORKDIR":
			folder = rest
		case "CMD":
			var command []string
			if err := json.Unmarshal([]byte(rest), &command); err != nil {
				t.Fatal(err)
			}
			last = r.run(folder, strings.Join(command, " "))
		default:
			t.Errorf("the Containerfile has %s, which this test does not know", name)
		}
	}
	passed(t, last)
}
