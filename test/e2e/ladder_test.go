package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// ladderColumns are the runes of the lifelines in a ladder of 80 columns.
const (
	clientLine = 10
	serverLine = 69
)

// ladderRows returns the rows of each end in a client's ladder, without the head and the end.
// An arrow is a row of the end that sent it. Each line must fit into 80 columns.
func ladderRows(t *testing.T, lines []string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for i, line := range lines {
		runes := []rune(line)
		if len(runes) > 80 {
			t.Errorf("%d columns: %s", len(runes), line)
		}
		if len(runes) <= serverLine || runes[clientLine] != '│' || runes[serverLine] != '│' {
			if i > 0 && line != "done" && !strings.Contains(strings.Join(lines[:i+1], "\n"), "failed: ") {
				t.Errorf("not a row: %q", line)
			}
			continue
		}
		end := "server"
		inner := string(runes[clientLine+1 : serverLine])
		if strings.TrimSpace(string(runes[:clientLine])) != "" || !strings.HasPrefix(inner, "<") && !strings.HasPrefix(inner, "  ") {
			end = "client"
		}
		rows[end] = append(rows[end], line)
	}
	return rows
}

var repeated = regexp.MustCompile(`… (\d+) more like these`)

// unfolded returns rows sorted, and each that was only counted as a row.
func unfolded(t *testing.T, rows []string) (all []string) {
	t.Helper()
	last := ""
	for _, row := range rows {
		n := 1
		if m := repeated.FindStringSubmatch(row); m != nil {
			n, _ = strconv.Atoi(m[1])
		} else {
			last = row
		}
		all = append(all, slices.Repeat([]string{last}, n)...)
	}
	slices.Sort(all)
	return all
}

// checkLadder checks the ladder of a client that succeeded: it has what the record of the same
// run has. Each end's rows are in the same order, unless several goroutines of an end log: an
// event that is logged late has its place in a record, but is drawn late.
func checkLadder(t *testing.T, c *process, file string) {
	t.Helper()
	d := start(t, "rdma_client", "diagram", file)
	d.succeeds()
	if last := c.lines[len(c.lines)-1]; last != "done" {
		t.Errorf("the ladder ends with %q", last)
	}
	got, want := ladderRows(t, c.lines), ladderRows(t, d.lines)
	for _, end := range []string{"client", "server"} {
		if strings.Contains(strings.Join(c.cmd.Args, " "), "--job exchange") {
			got[end], want[end] = unfolded(t, got[end]), unfolded(t, want[end])
		}
		if len(got[end]) < 10 || !slices.Equal(got[end], want[end]) {
			t.Errorf("the %s in the ladder:\n%s\nin the record:\n%s", end, strings.Join(got[end], "\n"), strings.Join(want[end], "\n"))
		}
	}
}

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
			file := filepath.Join(t.TempDir(), "record")
			c := start(t, "rdma_client", slices.Concat(job, []string{"--ladder", "--record", file, ipv4, device, s.port})...)
			c.succeeds()
			checkLadder(t, c, file)
		})
	}
	c := start(t, "rdma_client", "--ladder", ipv4, device, s.port) // without a record
	c.succeeds()
	ladderRows(t, c.lines)
	s.held.expect(t, s)
	s.stops()
}

// moved reports whether a line shows the move of a queue pair, beside the lifeline of an end.
func moved(line, end, to string) bool {
	if end == "client" {
		return strings.HasPrefix(strings.TrimLeft(line, " "), to+"│")
	}
	return strings.HasSuffix(line, "│"+to)
}

// inJob starts a client with a job that takes long, and waits until the ladder shows that both
// ends are in RTS, and a completion, while the job goes on. Neither end has a message to send
// meanwhile.
func inJob(t *testing.T, s *server) *process {
	t.Helper()
	c := start(t, "rdma_client", "--ladder", "--job", "bulk", "--size", "512G", ipv4, device, s.port)
	for _, end := range []string{"client", "server"} {
		c.await("row RTR→RTS of the "+end, func() bool {
			return slices.ContainsFunc(c.lines, func(line string) bool { return moved(line, end, "RTR→RTS") })
		})
	}
	c.await("row of a completion", func() bool { return strings.Contains(strings.Join(c.lines, "\n"), "│ completion ") })
	return c
}

// endsWith checks that the ladder ends with a failure at an end, "" if it is not known where,
// and that the failure is that of the command.
func endsWith(t *testing.T, c *process, end, why string) {
	t.Helper()
	ladderRows(t, c.lines)
	at := slices.IndexFunc(c.lines, func(line string) bool { return strings.Contains(line, "failed: ") })
	if at < 1 {
		t.Fatal("no failure")
	}
	text := strings.Join(c.lines[at:], " ")
	mark := []rune(c.lines[at-1])
	place := map[string]int{"client": clientLine + 2, "server": serverLine - 2}[end]
	if !strings.HasPrefix(text, "the "+end+" failed: ") || !strings.Contains(text, why) || len(mark) <= place || mark[place] != '╳' {
		t.Errorf("want a failure at the %s: %q", end, why)
	}
	printed := strings.TrimPrefix(strings.TrimSuffix(c.stderr.String(), "\n"), "rdma_client: ")
	if got := strings.TrimPrefix(text, "the "+end+" failed: "); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(printed, " ", "") {
		t.Errorf("the ladder ends with %q, the command with %q", got, printed)
	}
}

// TestLadderWhileTheJobRuns checks that the rows are there while the job goes on, and that the
// ladder of a job that is cut short has an end.
func TestLadderWhileTheJobRuns(t *testing.T) {
	noLeak(t)
	t.Run("interrupted", func(t *testing.T) {
		s := serve(t)
		c := inJob(t, s)
		c.signal(os.Interrupt)
		c.fails(130)
		endsWith(t, c, "client", "stopped by SIGINT")
		s.stillServes(t)
		s.stops()
	})
	t.Run("server killed", func(t *testing.T) {
		s := serve(t)
		c := inJob(t, s)
		s.signal(os.Kill)
		c.fails(1)
		endsWith(t, c, "server", " the connection")
	})
}

// TestLadderOfFailures checks that the ladder ends with the failure, at the end that failed.
func TestLadderOfFailures(t *testing.T) {
	noLeak(t)
	s := serve(t, "--allow", "send")
	for name, test := range map[string]struct {
		args     []string
		end, why string
	}{
		"refused":   {[]string{"--job", "atomic", ipv4, device, s.port}, "server", `does not do the job "atomic"`},
		"GID index": {[]string{ipv4, device, s.port, "255"}, "client", "GID index 255"},
		"no device": {[]string{ipv4, "nosuch0", s.port}, "client", "nosuch0"},
		"no server": {[]string{ipv4, device, freePort(t)}, "client", "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, "rdma_client", append([]string{"--ladder"}, test.args...)...)
			c.fails(1)
			endsWith(t, c, test.end, test.why)
		})
	}
	t.Run("server without events", func(t *testing.T) { // like an old release
		m := listenMute(t)
		c := start(t, "rdma_client", "--ladder", ipv4, device, m.port)
		testkit.Receive(t, m.conn, "the client's connection").Close()
		c.fails(1)
		endsWith(t, c, "server", " the connection")
		text := strings.Join(c.lines, "\n")
		for _, want := range []string{"-- hello --", " hello --│", " barrier “in RTS” --│", "RTS→ERR│"} {
			if !strings.Contains(text, want) {
				t.Errorf("the ladder lacks %q", want)
			}
		}
		if strings.Contains(text, "│RESET→INIT") {
			t.Error("a move of the server")
		}
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
