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
)

// The device under test: each process that opens it takes an address of
// 127.0.0.0/8. TCP goes by 127.0.0.1.
const (
	device    = "soft0"
	ipv4      = "127.0.0.1"
	gidIndex4 = "1" // the only slot
)

// sideBySide is how many clients a server serves at once.
const sideBySide = 100

// setUp builds the programs, with cgo or without it as these tests were.
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

// isGID4 says whether gid is one that soft0 takes.
func isGID4(gid string) bool {
	addr, err := netip.ParseAddr(strings.TrimPrefix(gid, "::ffff:"))
	return err == nil && addr.Is4() && addr.IsLoopback() && addr != netip.MustParseAddr(ipv4)
}

// noLeak is the first thing a test calls. The test runs beside others, since most tests
// wait. Its goroutines carry its name, as do those that they start: with the test they
// must all end.
func noLeak(t *testing.T) {
	t.Helper()
	t.Parallel()
	ctx := pprof.WithLabels(context.Background(), pprof.Labels("test", t.Name()))
	pprof.SetGoroutineLabels(ctx)
	t.Cleanup(func() {
		pprof.SetGoroutineLabels(context.Background())
		label := fmt.Sprintf("%q:%q", "test", t.Name())
		var left string
		eventually(t, func() bool {
			left = goroutinesWith(t, label)
			return left == ""
		}, func() string { return "goroutines are left:\n" + left })
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

// holdings is what a server that waits may hold: the files it began with, which
// are the device's socket, the listener and Go's own.
type holdings struct{ files int }

func (h *holdings) note(s *server) { h.files = openFiles(s) }

func (h *holdings) expect(t *testing.T, s *server) {
	t.Helper()
	eventually(t, func() bool { return openFiles(s) == h.files }, func() string {
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
