package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// pingpongExercises returns runs of each job of --peer pingpong, with our program at both
// ends. The flags are those of the C programs.
func pingpongExercises() (list []exercise) {
	for _, run := range []pingpongRun{
		{"rc", "-n 200 -s 5000 -m 512", 2000000, 200},
		{"uc", "-n 200 -c -e", 1638400, 200},
		{"ud", "-n 200 -e -r 1", 409600, 200},
		{"srq", "-n 200 -q 5 -r 5", 1638400, 200},
	} {
		flags := run.ours()
		list = append(list, exercise{
			name: "pingpong, " + run.name(), server: flags, client: flags,
			clientEvents: append([]wantEvent{wants("oob.message", "message", `"done"`, "sent", true, "bytes", 5)}, run.results()...),
			serverEvents: append([]wantEvent{wants("oob.message", "message", `"done"`, "sent", false, "bytes", 5)}, run.results()...),
		})
	}
	return list
}

// pingpongRun is a run of a pingpong, and its result.
type pingpongRun struct {
	kind  string // rc, uc, ud or srq
	flags string // the same at both ends, and in both languages
	bytes int
	iters int
}

func (r pingpongRun) name() string { return r.kind + " " + r.flags }

// ours returns the flags of our program.
func (r pingpongRun) ours() []string {
	return append([]string{"--peer", "pingpong", "--job", r.kind + "-pingpong"}, strings.Fields(r.flags)...)
}

// results returns the events of our program's result.
func (r pingpongRun) results() []wantEvent {
	return []wantEvent{
		wants("pingpong.bandwidth", "msg", fmt.Sprintf("%d bytes in ", r.bytes), "bytes", r.bytes),
		wants("pingpong.latency", "msg", fmt.Sprintf("%d iters in ", r.iters), "iters", r.iters),
	}
}

// lines matches the result as the C programs print it.
func (r pingpongRun) lines() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(fmt.Sprintf(`^%d bytes in \d+\.\d\d seconds = \d+\.\d\d Mbit/sec$`, r.bytes)),
		regexp.MustCompile(fmt.Sprintf(`^%d iters in \d+\.\d\d seconds = \d+\.\d\d usec/iter$`, r.iters)),
	}
}

// printed checks that the output of a program has the two lines of the result.
func (r pingpongRun) printed(t *testing.T, who string, lines []string) {
	t.Helper()
	for _, want := range r.lines() {
		found := 0
		for _, line := range lines {
			if want.MatchString(line) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s printed %d lines that match %v:\n%s", who, found, want, strings.Join(lines, "\n"))
		}
	}
}

// TestPingpongNarration checks that -v ends each of the two lines as the C programs do.
func TestPingpongNarration(t *testing.T) {
	noLeak(t)
	run := pingpongRun{"rc", "-n 100", 819200, 100}
	s := serve(t, append([]string{"--once"}, run.ours()...)...)
	c := start(t, "rdma_client", append(run.ours(), "-v", ipv4, device, s.port)...)
	c.succeeds()
	s.succeeds()
	var data []string
	for _, line := range c.lines {
		if _, text, ok := strings.Cut(line, "] DATA    "); ok {
			data = append(data, text)
		}
	}
	run.printed(t, "rdma_client", data)
}
