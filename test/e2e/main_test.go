package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

// limit is how long anything that should happen may take: the machine is
// emulated, and may share its host.
const limit = 30 * time.Second

// binaries is the directory of the programs under test.
var binaries = os.Getenv("RAWVERBS_BIN")

// beside is how many tests run at once unless go test -parallel says otherwise. Most wait
// for time to pass, so the number is not that of the processors.
const beside = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", beside); err != nil {
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

// eventually polls for what gives no signal.
func eventually(t *testing.T, done func() bool, complaint func() string) {
	t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(complaint())
		}
	}
}
