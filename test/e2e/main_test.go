package e2e

import (
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

func TestMain(m *testing.M) {
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
