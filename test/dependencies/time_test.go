package dependencies

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// TestTestsDoNotMeasure looks for tests that measure time, have limits of their own, or count allocations of the
// whole process. Such tests fail on a slow or busy host. In simulated time (a function given to synctest.Test)
// and in benchmarks everything is allowed. clocks lists the other exceptions.
func TestTestsDoNotMeasure(t *testing.T) {
	used := map[string]bool{}
	tests := regexp.MustCompile(`_test\.go$|^internal/verbstest/`)
	for _, file := range goFiles(t) {
		if !tests.MatchString(file) || strings.HasPrefix(file, "internal/testkit/") {
			continue
		}
		set, parsed := parse(t, file)
		for _, d := range parsed.Decls {
			name := ""
			if f, ok := d.(*ast.FuncDecl); ok {
				if name = f.Name.Name; strings.HasPrefix(name, "Benchmark") {
					continue
				}
			}
			ast.Inspect(d, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				called := selector(call.Fun)
				if called == "synctest.Test" {
					return false
				}
				remedy := measures(called, call)
				if remedy == "" {
					return true
				}
				for _, place := range []string{file + " " + name, file} {
					if clocks[place] != "" {
						used[place] = true
						return true
					}
				}
				t.Errorf("%s:%d: %s in %s: %s", file, set.Position(call.Pos()).Line, called, name, remedy)
				return true
			})
		}
	}
	for place := range clocks {
		if !used[place] {
			t.Errorf("clocks lists %q, which needs no exception", place)
		}
	}
}

// measures returns what to use in place of a call, or "" for a call that is allowed.
func measures(called string, call *ast.CallExpr) (remedy string) {
	const limit = "use internal/testkit, whose limit is the same for all tests"
	switch {
	case called == "time.Since", called == "time.Until", strings.HasSuffix(called, "time.Now().Sub"):
		return "no test asserts a duration; use testing/synctest, the order of events, or a benchmark"
	case called == "runtime.ReadMemStats":
		return "use testing.AllocsPerRun or testkit.Allocations"
	case called == "time.After", called == "time.NewTimer", called == "time.Tick", called == "time.NewTicker",
		strings.HasPrefix(called, "context.WithTimeout"), strings.HasPrefix(called, "context.WithDeadline"), called == "net.DialTimeout":
		if mentions(call.Args, "testkit") {
			return ""
		}
		return limit
	case called == "time.AfterFunc":
		if mentions(call.Args[:1], "testkit") {
			return ""
		}
		return limit + "; for an event that comes later, testkit.Moment"
	case called == "time.Sleep":
		for _, unit := range []string{"Second", "Minute", "Hour"} {
			if mentions(call.Args, unit) {
				return "wait for the event, or use testing/synctest"
			}
		}
	case strings.HasSuffix(called, "time.Now().Add"):
		if !mentions(call.Args, "testkit") {
			return limit
		}
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

// mentions reports whether an identifier of this name is in the expressions.
func mentions(exprs []ast.Expr, name string) (found bool) {
	for _, e := range exprs {
		ast.Inspect(e, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Name == name {
				found = true
			}
			return !found
		})
	}
	return found
}

// clocks has the functions that may use a clock or count the allocations of a process, with the reason.
var clocks = map[string]string{
	// What prints figures, and asserts none.
	"examples/kvcache/main_test.go use":             "of a benchmark",
	"examples/rnet-grpc/main_test.go TestSpeed":     "make bench-net",
	"rnet/speed_test.go measure":                    "make bench-net",
	"softroce/speed_test.go against":                "of benchmarks",
	"softroce/internal/interop/speed_test.go ratio": "of benchmarks",
	"test/versus/ends_test.go round":                "make bench-c",
	"test/cabi/soak_test.go TestSoak":               "make test-c-soak",
	"test/e2e/faults_test.go run":                   "the column of make faults that says what took longest",
	"internal/verbstest/case.go execute":            "the table of make conformance",
	"internal/verbstest/case.go outcome":            "the table of make conformance",

	// What runs only in simulated time.
	"internal/admission/admission_test.go":          "simulated",
	"internal/admission/connecting_test.go attack":  "simulated",
	"softroce/rnet_test.go TestRnetSimulatedHours":  "simulated",
	"softroce/rnet_test.go TestRnetSimulatedCut":    "simulated",
	"softroce/rnet_test.go TestRnetSimulatedLinger": "simulated",

	// Times that are the input of what is tested.
	"internal/ctxwatch/err_test.go TestErrIsTheEndAndItsCause": "a deadline that has passed",
	"rnet/astcp_test.go step":                                  "a deadline that may pass",
	"rc/example_do_test.go ExampleInFlightError":               "a wait that ends early",
	"softroce/await_test.go TestPollUntil":                     "the times of polls",
	"softroce/export_test.go Open":                             "a switch in the past",
	"softroce/network_test.go":                                 "the clock of a simulated network",
	"softroce/load_test.go TestGather":                         "the times of receives",
	"softroce/load_test.go TestLookSpreads":                    "the times of receives",
	"softroce/shards_linux_test.go TestSpreads":                "the times of receives",
	"softroce/spin_test.go pollNowAndThen":                     "how often a program polls",

	// Limits of their own, of a minute or more.
	"internal/doctor/mends_rxe_test.go sh":               "a command that outlives the test's context",
	"internal/verbstest/case.go patient":                 "the kit's limit, and a second for what a quirk says never comes",
	"oob/example_test.go Example":                        "an example of a limit",
	"rc/example_server_test.go useCache":                 "an example of a limit",
	"verbs/example_queues_test.go ExampleCQ_Completions": "an example of a limit",
	"test/cabi/program_test.go status":                   "a multiple of the kit's",

	// Sizes in bytes, of large objects.
	"internal/job/send/send_test.go TestReply": "half of a large message",
	"internal/verbstest/leak.go held":          "what thousands of objects leave behind",
}
