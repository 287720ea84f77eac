// Command run runs go test, prints a line per package, and ends with one screen about what failed: which tests,
// what they said, and how to run each alone.
//
//	go run ./test/run [FLAG OF GO TEST]... PACKAGE... [-args ...]
//
// The whole output is in out/test/NAME.log. The environment variable RUN_NAME gives NAME, usually that of the
// make target.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	name := os.Getenv("RUN_NAME")
	if name == "" {
		name = "test"
	}
	log, err := create(filepath.Join("out", "test", name+".log"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(2)
	}
	began := time.Now()
	r := newRun(os.Args[1:], os.Stdout, log)
	status := r.command(os.Args[1:])
	if err := log.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
	}
	r.summary(name, log.Name(), time.Since(began))
	if status == 0 && len(r.failed) > 0 {
		status = 1
	}
	os.Exit(status)
}

func create(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	return os.Create(path)
}

// command runs go test with these arguments and returns its status.
func (r *run) command(args []string) int {
	cmd := exec.CommandContext(context.Background(), "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		return 2
	}
	r.read(events)
	if err := cmd.Wait(); err != nil {
		return max(1, cmd.ProcessState.ExitCode())
	}
	return 0
}

// event is a line of go test -json (go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build
	Test        string
	Output      string
	Elapsed     float64 // seconds
	FailedBuild string
}

// test names a test; without Test, a package; of a build, the import path.
type test struct{ Package, Test string }

// failure is a test that failed.
type failure struct {
	test
	elapsed float64
}

// run is one run of go test.
type run struct {
	again    []string // the flags that a single test needs too
	out      io.Writer
	log      io.Writer
	output   map[test]*strings.Builder
	failed   []failure
	running  []test // those that have begun and not ended
	tests    int
	packages int
}

func newRun(args []string, out, log io.Writer) *run {
	return &run{again: flags(args), out: out, log: log, output: map[test]*strings.Builder{}}
}

// read reads the events until the end, and prints a line per package.
func (r *run) read(events io.Reader) {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if line != "" {
			if json.Unmarshal([]byte(line), &e) == nil {
				r.event(e)
			} else {
				fmt.Fprintf(r.out, "%s", line)
			}
		}
		if err != nil {
			return
		}
	}
}

func (r *run) event(e event) {
	of := test{e.Package, e.Test}
	if e.Package == "" {
		of.Package = e.ImportPath
	}
	switch e.Action {
	case "output", "build-output":
		if r.output[of] == nil {
			r.output[of] = new(strings.Builder)
		}
		r.output[of].WriteString(e.Output)
		fmt.Fprintf(r.log, "%s", e.Output)
	case "build-fail":
		r.failed = append(r.failed, failure{test: of})
	case "run":
		r.running = append(r.running, of)
	case "pass", "fail":
		if e.Test != "" {
			r.tests++
			r.over(of)
		} else {
			r.cutShort(e)
			r.packages++
			r.line(e)
		}
		if e.Action == "pass" {
			delete(r.output, of)
		} else if e.FailedBuild == "" {
			r.failed = append(r.failed, failure{of, e.Elapsed})
		}
	case "skip":
		r.over(of)
		delete(r.output, of)
	}
}

// over notes that a test runs no more.
func (r *run) over(of test) {
	r.running = slices.DeleteFunc(r.running, func(t test) bool { return t == of })
}

// cutShort notes as failed the tests that were running when their package failed: after a panic, a crash in C, or a
// timeout. A test that waits for another one said nothing yet.
func (r *run) cutShort(e event) {
	r.running = slices.DeleteFunc(r.running, func(t test) bool {
		if t.Package != e.Package {
			return false
		}
		if e.Action == "fail" && len(r.said(t)) > 0 {
			r.failed = append(r.failed, failure{t, e.Elapsed})
		}
		return true
	})
}

// line prints the line of a package that has ended.
func (r *run) line(e event) {
	result, cached := "ok  ", ""
	if e.Action == "fail" {
		result = "FAIL"
	}
	if text := r.output[test{Package: e.Package}]; text != nil && strings.Contains(text.String(), "(cached)") {
		cached = " (cached)"
	}
	fmt.Fprintf(r.out, "%s %s %.1f s%s\n", result, short(e.Package), e.Elapsed, cached)
}

// short returns a package of this module as a path from its root.
func short(pkg string) string {
	const module = "github.com/rawverbs/rawverbs"
	pkg, _, _ = strings.Cut(pkg, " [") // a build has the package that it is for in brackets
	if pkg == module {
		return "."
	}
	if rest, ok := strings.CutPrefix(pkg, module+"/"); ok {
		return "./" + strings.TrimSuffix(rest, ".test")
	}
	return pkg
}

// flags returns the arguments that come before the packages, except those that choose tests, and -args
// with what follows it.
func flags(args []string) (again []string) {
	for i := 0; i < len(args); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case name == "args" && strings.HasPrefix(args[i], "-"):
			return append(again, args[i:]...)
		case !strings.HasPrefix(args[i], "-"): // a package
		case name == "run", name == "skip", name == "p", name == "count", name == "timeout":
			if !hasValue {
				i++
			}
		case (name == "tags" || name == "cpu") && !hasValue && i+1 < len(args):
			again = append(again, args[i], args[i+1])
			i++
		default:
			again = append(again, args[i])
		}
	}
	return again
}
