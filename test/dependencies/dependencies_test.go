// Package dependencies tests what .golangci.yml cannot say: where C is, how large the programs and packages are, which
// examples and tests the docs name, and that no test measures time.
package dependencies

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var root = filepath.Join("..", "..")

// TestImportC: the product contains C in the provider of libibverbs, in its calls past cgo, and in the C library of the
// software device.
func TestImportC(t *testing.T) {
	importsC := regexp.MustCompile(`(?m)^import "C"$`)
	allowed := regexp.MustCompile(`^(verbs/ibv_\w+|verbs/internal/ccall/\w+|cabi/core/\w+)\.go$`)
	forTests := regexp.MustCompile(`_test\.go$|^test/|^verbs/internal/(ccall/ccalltest|ibvfake|ibvlinked)/`)
	for _, name := range goFiles(t) {
		if importsC.MatchString(read(t, name)) && !allowed.MatchString(name) && !forTests.MatchString(name) {
			t.Errorf("%s imports C; only verbs/ibv_*.go, verbs/internal/ccall and cabi/core may", name)
		}
	}
}

// TestSizes limits the modules of go list -m all, which has those of the commands and of the tests of linked modules; the
// commands, built without -ldflags; and the lines of all packages but the four largest.
func TestSizes(t *testing.T) {
	const MiB = 1 << 20
	if modules := strings.Fields(goCommand(t, "list", "-m", "-f", "{{.Path}}", "all")); len(modules) > 50 { // 23 of them for metrics
		t.Errorf("the module graph has %d modules, want at most 50: %v", len(modules), modules)
	}
	dir := t.TempDir()
	goCommand(t, "build", "-o", dir+"/", "./cmd/...")
	// crypto/tls is 2 MiB of each but rawverbs, metrics are 5 MiB, the laboratory is 2 MiB.
	for name, most := range map[string]int64{"rdma_client": 15 * MiB, "rdma_server": 20 * MiB, "rdma_lab": 19 * MiB, "rawverbs": 9 * MiB} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() > most {
			t.Errorf("%s has %d bytes, want at most %d; %v", name, info.Size(), most, err)
		}
	}
	lines, large := map[string]int{}, []string{"verbs", "softroce/internal/transport", "verbs/verbstest", "cmd/internal/lab/workbench"}
	for _, name := range goFiles(t) {
		if dir := path.Dir(name); !strings.HasSuffix(name, "_test.go") && !slices.Contains(large, dir) {
			lines[dir] += strings.Count(read(t, name), "\n")
		}
	}
	for dir, n := range lines {
		if n > 3300 {
			t.Errorf("%s has %d lines, want at most 3300", dir, n)
		}
	}
}

// TestDocListsExamples: the doc.go of each public package lists its Example functions, in order.
func TestDocListsExamples(t *testing.T) {
	for _, dir := range []string{"verbs", "qpstate", "oob", "rc", "rnet", "softroce"} {
		have := found(tests(t, dir), regexp.MustCompile(`(?m)^func (Example\w*)\(\)`))
		slices.Sort(have)
		if got := found(read(t, dir+"/doc.go"), regexp.MustCompile(`(?m)^//\t(Example\w*)  `)); !slices.Equal(got, have) || len(have) == 0 {
			t.Errorf("%s/doc.go lists the examples\n%q, the package has\n%q", dir, got, have)
		}
	}
}

// TestFirstScreen: the first screen of the README has the picture, one link to the page, and both commands.
func TestFirstScreen(t *testing.T) {
	screen := strings.Join(strings.SplitAfter(read(t, "README.md"), "\n")[:24], "")
	for _, want := range []string{"(docs/images/laboratory-send.png)", "(docs/laboratory.md)", "\nmake demo ", "\nmake laboratory "} {
		if strings.Count(screen, want) != 1 {
			t.Errorf("the first 24 lines do not have %q once:\n%s", want, screen)
		}
	}
}

// TestThreatsHaveTests looks up each test, or file of CI, that SECURITY.md names.
func TestThreatsHaveTests(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "SECURITY.md"), "## Threats")
	rows, named := 0, regexp.MustCompile("`([a-z0-9/]+)`((?: (?:Test|Fuzz)\\w+,?)+)")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| who") {
			continue
		}
		rows++
		cell := strings.TrimSpace(strings.Split(line, "|")[4])
		all := named.FindAllStringSubmatch(cell, -1)
		if len(all) == 0 { // then it names a file, such as CI's
			read(t, cell)
		}
		for _, m := range all {
			for name := range strings.FieldsSeq(strings.ReplaceAll(m[2], ",", " ")) {
				if !strings.Contains(tests(t, m[1]), "\nfunc "+name+"(") {
					t.Errorf("package %s has no %s", m[1], name)
				}
			}
		}
	}
	if rows < 10 {
		t.Errorf("only %d threats were read", rows)
	}
}

// TestTestsDoNotMeasure looks for tests that measure time, have limits of their own, or count allocations of the
// whole process. Such tests fail on a slow or busy host. In simulated time (a function given to synctest.Test)
// and in benchmarks everything is allowed. clocks lists the other exceptions.
func TestTestsDoNotMeasure(t *testing.T) {
	used, kit := map[string]bool{}, regexp.MustCompile(`_test\.go$|^verbs/verbstest/`)
	for _, file := range goFiles(t) {
		if !kit.MatchString(file) || strings.HasPrefix(file, "internal/testkit/") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			place := file
			if f, ok := d.(*ast.FuncDecl); ok {
				place += " " + f.Name.Name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				called := selector(call.Fun)
				if called == "synctest.Test" || strings.Contains(place, " Benchmark") {
					return false
				}
				if remedy := measures(called, call.Args); remedy != "" {
					used[file], used[place] = true, true
					if !slices.Contains(clocks, file) && !slices.Contains(clocks, place) {
						t.Errorf("%v: %s in %s: %s", set.Position(call.Pos()), called, place, remedy)
					}
				}
				return true
			})
		}
	}
	for _, place := range clocks {
		if !used[place] {
			t.Errorf("clocks lists %q, which needs no exception", place)
		}
	}
}

// limits are the calls that make a limit.
var limits = regexp.MustCompile(`^(time\.(After|NewTimer|Tick|NewTicker|AfterFunc)|context\.With(Timeout|Deadline)\w*|net\.DialTimeout)$|time\.Now\(\)\.Add$`)

// measures returns what to use in place of a call, or "" for a call that is allowed.
func measures(called string, args []ast.Expr) (remedy string) {
	switch {
	case called == "time.Since", called == "time.Until", strings.HasSuffix(called, "time.Now().Sub"):
		return "no test asserts a duration; use testing/synctest, the order of events, or a benchmark"
	case called == "runtime.ReadMemStats":
		return "use testing.AllocsPerRun or testkit.Allocations"
	case called == "time.Sleep" && mentions(args, "Second", "Minute", "Hour"):
		return "wait for the event, or use testing/synctest"
	case called == "time.AfterFunc" && !mentions(args[:1], "testkit"), limits.MatchString(called) && !mentions(args, "testkit"):
		return "use internal/testkit, whose limit is the same for all tests; for an event that comes later, testkit.Moment"
	}
	return ""
}

// selector returns the text of a function's expression, such as time.Now().Add.
func selector(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return selector(e.X) + "." + e.Sel.Name
	case *ast.CallExpr:
		return selector(e.Fun) + "()"
	}
	return "…"
}

// mentions reports whether one of the identifiers is in the expressions.
func mentions(exprs []ast.Expr, names ...string) (found bool) {
	for _, e := range exprs {
		ast.Inspect(e, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && slices.Contains(names, id.Name)
			return !found
		})
	}
	return found
}

// clocks has the files and functions that may use a clock or count the allocations of a process.
var clocks = []string{
	// What prints figures, and asserts none.
	"examples/kvcache/main_test.go use", "examples/rnet-grpc/main_test.go TestSpeed", "rnet/speed_test.go measure",
	"softroce/speed_test.go against", "softroce/internal/interop/speed_test.go ratio", "test/versus/ends_test.go round",
	"cmd/e2e/cabi/soak_test.go TestSoak", "cmd/e2e/faults_test.go run",
	"verbs/verbstest/case.go execute", "verbs/verbstest/case.go outcome",
	// What runs only in simulated time.
	"internal/admission/admission_test.go", "internal/admission/connecting_test.go attack",
	"softroce/rnet_test.go TestRnetSimulatedHours", "softroce/rnet_test.go TestRnetSimulatedCut", "softroce/rnet_test.go TestRnetSimulatedLinger",
	// Times that are the input of what is tested: deadlines that pass, times of polls and receives.
	"internal/sync/ctxwatch/err_test.go TestErrIsTheEndAndItsCause", "rnet/astcp_test.go step", "rc/example_do_test.go ExampleInFlightError",
	"softroce/network_test.go", "softroce/spin_test.go pollNowAndThen",
	// Limits of their own, of a minute or more, and examples of a limit.
	"cmd/internal/lab/doctor/mends_rxe_test.go sh", "verbs/verbstest/case.go patient", "cmd/e2e/cabi/program_test.go status",
	"oob/example_test.go Example", "rc/example_server_test.go useCache", "verbs/example_queues_test.go ExampleCQ_Completions",
	// Sizes in bytes, of large objects.
	"cmd/internal/job/send/send_test.go TestReply", "verbs/verbstest/leak.go held",
}

// goFiles returns the module's files in Go, as paths from its root.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		base := path.Base(name)
		if err == nil && entry.IsDir() && (name == "out" || base == "node_modules" || base == "testdata" || base[0] == '.' && base != ".") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".go") {
			files = append(files, name)
		}
		return err
	})
	if err != nil || len(files) < 800 {
		t.Fatalf("%d files in Go, %v", len(files), err)
	}
	return files
}

// tests returns the text of a folder's tests.
func tests(t *testing.T, dir string) (text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text += read(t, filepath.Join(dir, filepath.Base(file)))
	}
	return text
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// found returns what the pattern's group matches.
func found(text string, pattern *regexp.Regexp) (groups []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		groups = append(groups, m[1])
	}
	return groups
}

// goCommand runs the go command in the module's root and returns its output.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}
