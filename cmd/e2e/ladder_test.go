package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// ladder starts a client that draws its run, and writes the record of it.
func ladder(t *testing.T, args ...string) (c *process, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "record")
	return start(t, "rdma_client", append([]string{"--ladder", "--record", file}, args...)...), file
}

// checkLadder checks that a client that has ended drew what is drawn of its record, with all of want.
func checkLadder(t *testing.T, c *process, file string, want ...string) {
	t.Helper()
	d := start(t, "rdma_client", "diagram", file)
	d.succeeds()
	if !slices.Equal(c.lines, d.lines) {
		t.Errorf("the ladder:\n%s\nof the record:\n%s", strings.Join(c.lines, "\n"), strings.Join(d.lines, "\n"))
	}
	for _, w := range want {
		if !strings.Contains(strings.Join(c.lines, "\n"), w) {
			t.Errorf("the ladder lacks %q", w)
		}
	}
}

// rowsOfBoth are rows of each end.
var rowsOfBoth = []string{"-- hello --", " hello --│", "RTR→RTS│", "│RTR→RTS", "\ndone"}

// ladderJobs are the jobs whose ladders are drawn.
var ladderJobs = [][]string{
	{"--job", "send"},
	{"--job", "write-read"},
	{"--job", "atomic", "--count", "15"},
	{"--job", "exchange-write"},
	{"--job", "exchange-read"},
	{"--job", "bulk", "--size", "4M", "--qps", "3"},
	{"--job", "bench-send-lat", "-n", "100"},
}

func TestLadder(t *testing.T) {
	noLeak(t)
	s := serve(t)
	for _, job := range ladderJobs {
		t.Run(job[1], func(t *testing.T) {
			c, file := ladder(t, append(job, ipv4, device, s.port)...)
			c.succeeds()
			checkLadder(t, c, file, rowsOfBoth...)
		})
	}
	c := start(t, "rdma_client", "--ladder", ipv4, device, s.port) // without a record
	c.succeeds()
	if text := strings.Join(c.lines, "\n"); !strings.Contains(text, "│RTR→RTS") || !strings.HasSuffix(text, "\ndone") {
		t.Errorf("without a record:\n%s", text)
	}
	s.held.expect(t, s)
	s.stops()
}

// TestLadderWhileTheJobRuns checks that nothing is drawn before the end, and that a job that is cut
// short is drawn with what the client has.
func TestLadderWhileTheJobRuns(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	for _, test := range []struct {
		name   string
		cut    func(c *process, s *server)
		status int
		why    string
		want   string
	}{
		{"interrupted", func(c *process, _ *server) { c.signal(os.Interrupt) }, 130, "stopped by SIGINT", "the client failed: "},
		{"server killed", func(_ *process, s *server) { s.signal(os.Kill) }, 1, " the connection", "the server failed: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t)
			c, file := ladder(t, "--job", "bulk", "--size", "512G", ipv4, device, s.port)
			s.event("oob.message", "msg", `received barrier "in RTS"`) // then the client is in RTS, too
			c.mu.Lock()
			drawn := len(c.lines)
			c.mu.Unlock()
			test.cut(c, s)
			c.fails(test.status, test.why)
			checkLadder(t, c, file, "server (its part is missing)", "-- hello --", " hello --│", "INIT→RTR│", "╳", test.want)
			if drawn > 0 {
				t.Errorf("%d lines while the job ran", drawn)
			}
		})
	}
}

// TestLadderOfFailures checks that the ladder ends with the failure, at the end that failed.
func TestLadderOfFailures(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t, "--allow", "send")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"refused":   {[]string{"--job", "atomic", ipv4, device, s.port}, "the server failed: "},
		"GID index": {[]string{ipv4, device, s.port, "255"}, "the client failed: "},
		"no device": {[]string{ipv4, "nosuch0", s.port}, "the client failed: "},
		"no server": {[]string{ipv4, device, freePort(t)}, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			c, file := ladder(t, test.args...)
			c.fails(1)
			checkLadder(t, c, file, test.want)
		})
	}
	t.Run("server without events", func(t *testing.T) { // like an old release
		m := listenMute(t)
		c, file := ladder(t, ipv4, device, m.port)
		testkit.Receive(t, m.conn, "the client's connection").Close()
		c.fails(1)
		checkLadder(t, c, file, "server (its part is missing)", "-- hello --", " hello --│", " barrier “in RTS” --│", "RTS→ERR│", "the server failed: ")
	})
	s.stillServes(t)
	s.stops()
}

// TestLadderFlags checks that the ladder is one of the forms of the output.
func TestLadderFlags(t *testing.T) {
	for _, other := range []string{"--json", "--quiet", "-v"} {
		c := start(t, "rdma_client", "--ladder", other, ipv4, device, "1")
		c.fails(2, "ladder")
		for _, line := range c.lines {
			t.Errorf("%s: %q", other, line)
		}
	}
	c := start(t, "rdma_client", "--ladder", "--mtu", "3", ipv4, device, "1")
	c.fails(2, "MTU")
	if len(c.lines) > 0 {
		t.Errorf("a ladder of a wrong command line: %q", c.lines)
	}
	start(t, "rdma_server", "--ladder", device, "0").fails(2, "ladder")
}
