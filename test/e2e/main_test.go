package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

// limit is the limit of every wait. It is long, because the machine is emulated and may share
// its host.
const limit = 30 * time.Second

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

// eventually polls until done returns true.
func eventually(t *testing.T, done func() bool, complaint func() string) {
	t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(complaint())
		}
	}
}
