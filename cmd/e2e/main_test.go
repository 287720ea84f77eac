package e2e

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// never is a --timeout that is longer than testkit.Limit, so it ends nothing in a test that passes.
const never = "--timeout=1h"

// insist calls try until it returns a text that contains want. It is for what ends after a short --timeout: a host
// that stops for that long lets another step end first, with another text.
func insist(t *testing.T, want string, try func() (got string)) {
	t.Helper()
	got := ""
	testkit.Until(t, want, func() bool {
		got = try()
		return strings.Contains(got, want)
	}, func() string { return got })
}

// runsOut is insist for a program that fails after its short --timeout. begin starts it, and each time a new peer.
func runsOut(t *testing.T, begin func() *process, want ...string) {
	t.Helper()
	var p *process
	insist(t, want[0], func() string {
		p = begin()
		p.wait()
		return p.stderr.String()
	})
	p.fails(1, want...)
}

// binaries is the directory of the programs under test.
var binaries = os.Getenv("RAWVERBS_BIN")

// parallel is the default of go test -parallel. It does not depend on the number of
// processors, because most tests wait.
const parallel = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", parallel); err != nil {
			panic(err)
		}
	}
	cleanUp, err := setUp()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	status := m.Run()
	cleanUp()
	os.Exit(status)
}
