package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// benchExercises returns a short run of each bench job.
func benchExercises() []exercise {
	few := []string{"-n", "60"}
	var list []exercise
	for _, op := range []string{"send", "write", "read", "atomic"} {
		list = append(list, benchmark(op+"-bw", 1, 60, few...), benchmark(op+"-lat", 1, 60, few...))
	}
	return list
}

// TestBenchShapes runs jobs with flags that change the posted requests and the waits.
func TestBenchShapes(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	for _, e := range []exercise{
		benchmark("send-bw", 2, 300, "-n", "300", "-s", "1000", "-q", "2", "-r", "7"),
		benchmark("send-bw", 1, 300, "-n", "300", "-s", "64", "-I", "64", "-t", "20", "-Q", "10"),
		benchmark("write-bw", 1, 96, "-n", "96", "-l", "16", "-s", "4096"),
		benchmark("send-bw", 2, 60, "-n", "60", "-s", "3000", "-b", "-q", "2"),
		benchmark("read-bw", 1, 60, "-n", "60", "-s", "3000", "-b"),
		benchmark("send-lat", 1, 60, "-n", "60", "-e"),
		benchmark("write-bw", 1, 60, "-n", "60", "-e", "-s", "2000"),
	} {
		t.Run(e.name, func(t *testing.T) { e.run(t) })
	}
}

// benchmark returns a run of a job. Words after the job's name are flags.
func benchmark(job string, qps, iters int, flags ...string) exercise {
	iterations, latency := qps*iters, strings.HasSuffix(job, "-lat")
	passive := !latency && !strings.HasPrefix(job, "send") || strings.HasPrefix(job, "read") || strings.HasPrefix(job, "atomic")
	by := func(whoMeasures string) string {
		if slices.Contains(flags, "-b") {
			return "both"
		}
		return whoMeasures
	}
	server := by("this end")
	if passive {
		server = by("peer")
	}
	return exercise{
		name:         "bench-" + job + " " + strings.Join(flags, " "),
		client:       append([]string{"--job", "bench-" + job}, flags...),
		clientEvents: []wantEvent{wants("bench.begun", "qps", qps, "iters", iters), wants("bench.header", "msg", "#bytes"), wants("bench.result", "by", by("this end"), "iters", iterations)},
		serverEvents: []wantEvent{wants("bench.begun", "qps", qps, "iters", iters), wants("bench.header", "msg", "#bytes"), wants("bench.result", "by", server, "iters", iterations)},
		more: func(t *testing.T, c, s *process) {
			for _, p := range []*process{c, s} {
				checkBenchResult(t, p, latency)
			}
		},
	}
}

// checkBenchResult checks that the figures are positive, and agree with one another and with
// the table's row.
func checkBenchResult(t *testing.T, p *process, latency bool) {
	t.Helper()
	r := p.find("bench.result")
	if r == nil {
		return // reported already
	}
	figure := func(name string) float64 {
		n, ok := r[name].(float64)
		if !ok {
			t.Errorf("%s: the result has no %s: %v", p.name, name, r)
		}
		return n
	}
	row := strings.Fields(r.str("msg"))
	if len(row) == 0 || row[0] != fmt.Sprint(figure("size")) || row[1] != fmt.Sprint(figure("iters")) {
		t.Errorf("%s: the row is %q", p.name, r.str("msg"))
	}
	if !latency {
		if figure("bytes_per_s") <= 0 || figure("messages_per_s") <= 0 || len(row) != 5 {
			t.Errorf("%s: %v", p.name, r)
		}
		if per := figure("bytes_per_s") / figure("messages_per_s"); per < figure("size")*0.99 || per > figure("size")*1.01 {
			t.Errorf("%s: %v bytes per message of %v", p.name, per, figure("size"))
		}
		return
	}
	percentiles, _ := r["percentiles_us"].(map[string]any)
	p50, _ := percentiles["50"].(float64)
	p999, _ := percentiles["99.9"].(float64)
	if len(percentiles) != 5 || figure("t_min_us") <= 0 || p50 < figure("t_min_us") || p999 < p50 || figure("t_longest_us") < figure("t_max_us") || len(row) != 9 {
		t.Errorf("%s: %v", p.name, r)
	}
}

// TestBenchLonger runs a job with a duration, and a sweep over all sizes with a chart.
func TestBenchLonger(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	chart := filepath.Join(t.TempDir(), "chart.svg")
	page := filepath.Join(t.TempDir(), "chart.html")
	for _, test := range []struct {
		name string
		args []string
		rows int
	}{
		{"a duration, bandwidth", []string{"--job", "bench-send-bw", "-D", "1", "-s", "1000"}, 1},
		{"a duration, both ways", []string{"--job", "bench-write-bw", "-D", "1", "-b", "-s", "1000"}, 1},
		{"a duration, latency", []string{"--job", "bench-write-lat", "-D", "1", "-f", "0"}, 1},
		{"all sizes", []string{"--job", "bench-write-bw", "-a", "-n", "5", "--chart", chart}, 23},
		{"all sizes, latency", []string{"--job", "bench-send-lat", "-a", "-n", "5", "--chart", page}, 23},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, "--once")
			c := s.client(t, test.args...)
			c.succeeds()
			s.succeeds()
			for _, p := range []*process{c, s.process} {
				p.logged(t, []wantEvent{wants("bench.header"), wants("bench.result")})
				if n := len(p.all("bench.result")); n != test.rows {
					t.Errorf("%s reported %d results, want %d", p.name, n, test.rows)
				}
				for _, r := range p.all("bench.result") {
					if n, ok := r["iters"].(float64); !ok || n < 5 {
						t.Errorf("%s: %v", p.name, r)
					}
				}
			}
		})
	}
	for file, want := range map[string]string{chart: "<?xml", page: "<!DOCTYPE html>"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.HasPrefix(string(text), want) || !strings.Contains(string(text), "<svg") || !strings.Contains(string(text), ">128<") {
			t.Errorf("%s is no chart: %.200s", file, text)
		}
	}
}

// TestBenchRefused checks that requests above the limits of the server or the device fail
// with one line.
func TestBenchRefused(t *testing.T) {
	noLeak(t)
	for _, test := range []struct {
		name   string
		server []string
		client []string
		want   []string
	}{
		{"more memory than the server gives", []string{"--max-size", "1M"}, []string{"-s", "1M"}, []string{"a region of 2M bytes", "allows at most 1M", "--max-size 2M"}},
		{"more inline than a device has", nil, []string{"-I", strconv.Itoa(1 << 16), "-s", "10"}, []string{"inline", "try:"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, append([]string{"--once"}, test.server...)...)
			c := s.client(t, append([]string{"--job", "bench-send-bw"}, test.client...)...)
			c.fails(1, test.want...)
			s.fails(1)
		})
	}
}

// TestBenchPeerGone checks that an end notices that its peer has died, long before its --timeout, and
// within --timeout that its peer hangs. This holds for an end that measures and for an end that
// only provides memory. That a run with progress may take longer than --timeout is tested on every device by
// TestUntilStalled and TestPacketsAreProgress of cmd/internal/job/kit.
func TestBenchPeerGone(t *testing.T) {
	noLeak(t)
	soon := "--timeout=10s" // but not while ten runs connect beside each other
	if emulated {
		soon = "--timeout=30s"
	}
	for _, job := range []string{"send-bw", "write-bw", "send-lat", "write-lat", "read-lat"} {
		for name, gone := range map[string]struct {
			signal  os.Signal
			timeout string
		}{"dies": {syscall.SIGKILL, never}, "hangs": {syscall.SIGSTOP, soon}} {
			t.Run(job+", the client "+name, func(t *testing.T) {
				t.Parallel()
				s := serve(t, "--once", gone.timeout)
				c := s.client(t, "--job", "bench-"+job, "-D", "100", "-s", "512")
				s.event("bench.begun")
				time.Sleep(5 * testkit.Moment) // so that messages are in flight
				c.signal(gone.signal)
				s.fails(1)               // TCP, the retry limit or the lack of progress may be first
				_ = c.cmd.Process.Kill() // it may have ended
				c.wait()
			})
		}
	}
}
