//go:build !rdma

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"

	_ "github.com/rawverbs/rawverbs/softroce"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// The device under test. Each process that opens it takes an address of 127.0.0.0/8. TCP
// uses 127.0.0.1.
const (
	device    = "soft0"
	ipv4      = "127.0.0.1"
	gidIndex4 = "1" // the only slot
)

// emulated is true for tests that usually run in an emulated machine, which is slow.
const emulated = false

// sideBySide is the number of clients that a server serves at once. It is small enough that on one busy processor
// each client gets to its hello in the 5 s that a server waits for it. make soak has 500.
const sideBySide = 40

// setUp builds the programs, with cgo if the tests were built with cgo.
func setUp() (cleanUp func(), err error) {
	if binaries != "" {
		return func() {}, nil
	}
	if binaries, err = os.MkdirTemp("", "rawverbs-e2e"); err != nil {
		return nil, err
	}
	cleanUp = func() { os.RemoveAll(binaries) }
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binaries+string(filepath.Separator), "./cmd/...")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		cleanUp()
		return nil, fmt.Errorf("%v: %w: %s", build, err, out)
	}
	return cleanUp, nil
}

// isGID4 reports whether gid is one that soft0 may have.
func isGID4(gid string) bool {
	addr, err := netip.ParseAddr(strings.TrimPrefix(gid, "::ffff:"))
	return err == nil && addr.Is4() && addr.IsLoopback() && addr != netip.MustParseAddr(ipv4)
}

// noLeak checks that the goroutines of the test end with the test. It labels the test's
// goroutine with the test's name; goroutines inherit the label. noLeak also makes the test
// parallel, because most tests wait. A test calls noLeak first.
func noLeak(t *testing.T) {
	t.Helper()
	t.Parallel()
	ctx := pprof.WithLabels(context.Background(), pprof.Labels("test", t.Name()))
	pprof.SetGoroutineLabels(ctx)
	t.Cleanup(func() {
		pprof.SetGoroutineLabels(context.Background())
		label := fmt.Sprintf("%q:%q", "test", t.Name())
		var left string
		testkit.Until(t, "end of the goroutines", func() bool {
			left = goroutinesWith(t, label)
			return left == ""
		}, func() string { return left })
	})
}

// goroutinesWith returns the stacks of the goroutines with a pprof label.
func goroutinesWith(t *testing.T, label string) string {
	t.Helper()
	var profile strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	var found []string
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, "# labels: {"+label+"}") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// holdings are the resources that an idle server may have: the files that it opened at the
// start, which are the device's socket, the listener and those of the Go runtime. A client that
// waited for the server may be among them.
type holdings struct{ files int }

func (h *holdings) note(s *server) { h.files = openFiles(s) }

func (h *holdings) expect(t *testing.T, s *server) {
	t.Helper()
	testkit.Until(t, "closing of the server's files", func() bool { return openFiles(s) <= h.files }, func() string {
		return fmt.Sprintf("the server has %d files open, and began with %d", openFiles(s), h.files)
	})
}

func openFiles(s *server) int {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(files)
}
