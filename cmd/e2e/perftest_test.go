//go:build rdma

package e2e

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// perftestRun is one test of perftest with the flags of both ends.
type perftestRun struct {
	test  string // "send-bw": ib_send_bw, and the job bench-send-bw
	flags string
}

// perftestRuns has each program without flags, and each flag that changes the exchanged data
// or the memory layout. Some runs have the C program only as one end, because the machine is
// slow.
var perftestRuns = []struct {
	perftestRun
	theirs string
}{
	{perftestRun{"send-bw", "-n 100"}, "client server"},
	{perftestRun{"write-bw", "-n 100"}, "client server"},
	{perftestRun{"read-bw", "-n 100"}, "client server"},
	{perftestRun{"atomic-bw", "-n 100"}, "client server"},
	{perftestRun{"send-lat", "-n 100"}, "client server"},
	{perftestRun{"write-lat", "-n 300"}, "client server"},
	{perftestRun{"read-lat", "-n 100"}, "client server"},
	{perftestRun{"atomic-lat", "-n 100"}, "client server"},

	{perftestRun{"send-bw", "-n 700 -s 100 -q 2"}, "client"},
	{perftestRun{"atomic-bw", "-n 100 -q 2"}, "server"},

	{perftestRun{"send-bw", "-n 100 -b"}, "server"},
	{perftestRun{"read-bw", "-n 100 -s 3000 -b"}, "server"},

	{perftestRun{"send-bw", "-n 5 -a"}, "client"},

	{perftestRun{"write-bw", "-D 1"}, "client"},
	{perftestRun{"send-lat", "-D 1"}, "server"},

	{perftestRun{"write-bw", "-n 100 -s 512 -l 10"}, "server"},
	{perftestRun{"send-bw", "-n 100 -s 2000 -r 7 -t 3 -Q 2"}, "server"},
	{perftestRun{"send-bw", "-n 100 -e"}, "client"},
	{perftestRun{"write-bw", "-n 50 -m 256 -s 10000"}, "server"},
}

// has reports whether the flags include flag.
func (r perftestRun) has(flag string) bool { return slices.Contains(strings.Fields(r.flags), flag) }

// number returns the value of a flag, or def.
func (r perftestRun) number(flag string, def int) int {
	fields := strings.Fields(r.flags)
	if i := slices.Index(fields, flag); i >= 0 {
		def, _ = strconv.Atoi(fields[i+1])
	}
	return def
}

func (r perftestRun) latency() bool { return strings.HasSuffix(r.test, "-lat") }

// silent reports whether the server prints no result, because only the client measures and
// does not report its result.
func (r perftestRun) silent() bool {
	return r.latency() && !strings.HasPrefix(r.test, "send") && !strings.HasPrefix(r.test, "write")
}

// c starts the C program: a client of server, or a server if server is empty.
func (r perftestRun) c(t *testing.T, port string, server ...string) *process {
	t.Helper()
	name := "ib_" + strings.ReplaceAll(r.test, "-", "_")
	p := startCommand(t, name, slices.Concat([]string{name, "-d", device, "-x", gidIndex4, "-p", port}, strings.Fields(r.flags), server))
	if len(server) == 0 {
		waitListening(t, port)
	}
	return p
}

func (r perftestRun) ours() []string {
	return append([]string{"--peer", "perftest", "--job", "bench-" + r.test}, strings.Fields(r.flags)...)
}

// figures are the result of one end for one size: the bytes, the iterations, and the average
// bandwidth or latency.
type figures struct{ size, iterations, average float64 }

// figuresOfC returns the rows of a C program's table.
func figuresOfC(p *process, r perftestRun) (all []figures) {
	average := 3 // bandwidth: size, iterations, peak, average
	switch {
	case r.latency() && r.has("-D"):
		average = 2
	case r.latency():
		average = 5 // size, iterations, min, max, typical, average
	}
	for _, line := range p.lines {
		var row []float64
		for _, field := range strings.Fields(line) {
			f, err := strconv.ParseFloat(strings.TrimPrefix(field, "-"), 64) // a deviation may be -nan
			if err != nil {
				row = nil
				break
			}
			row = append(row, f)
		}
		if len(row) > average {
			all = append(all, figures{row[0], row[1], row[average]})
		}
	}
	return all
}

// figuresOfOurs returns the results of our program's --json output.
func figuresOfOurs(p *process) (all []figures) {
	for _, r := range p.all("bench.result") {
		f := figures{}
		f.size, _ = r["size"].(float64)
		f.iterations, _ = r["iters"].(float64)
		f.average, _ = r["average"].(float64)
		if f.average == 0 {
			f.average, _ = r["t_avg_us"].(float64)
		}
		all = append(all, f)
	}
	return all
}

func (r perftestRun) check(t *testing.T, who string, got []figures) {
	t.Helper()
	var sizes []float64
	switch {
	case r.has("-a"):
		for s := 2; s <= 8<<20; s *= 2 {
			sizes = append(sizes, float64(s))
		}
	case strings.HasPrefix(r.test, "atomic"):
		sizes = []float64{8}
	case r.latency():
		sizes = []float64{float64(r.number("-s", 2))}
	default:
		sizes = []float64{float64(r.number("-s", 64<<10))}
	}
	if len(got) != len(sizes) {
		t.Errorf("the %s shows %d results, want %d: %v", who, len(got), len(sizes), got)
		return
	}
	for i, f := range got {
		iterations := float64(r.number("-n", 0) * r.number("-q", 1))
		none := f.average <= 0 && (f.size > 1000 || r.latency()) // a smaller one may be 0.00 MB/s
		if f.size != sizes[i] || !r.has("-D") && f.iterations != iterations || f.iterations < 1 || none {
			t.Errorf("the %s shows %+v, want %v bytes, %v iterations, and an average", who, f, sizes[i], iterations)
		}
	}
}

// bothEnd starts two ends and waits until both have ended. perftest measures the processor's clock,
// and gives up if the host is too busy for that. Then both start again.
func bothEnd(t *testing.T, start func() (server, client *process)) (server, client *process) {
	t.Helper()
	const givesUp = "Correlation coefficient r^2"
	for range 10 {
		server, client = start()
		client.waitLong()
		server.waitLong()
		if !strings.Contains(client.stderr.String()+server.stderr.String(), givesUp) {
			break
		}
	}
	return server, client
}

// TestPerftest runs the C program as the server, then as the client.
func TestPerftest(t *testing.T) {
	noLeak(t)
	for _, r := range perftestRuns {
		if strings.Contains(r.theirs, "server") {
			t.Run(r.test+" "+r.flags+"/C server", func(t *testing.T) {
				s, c := bothEnd(t, func() (server, client *process) {
					port := freePort(t)
					server = r.c(t, port)
					return server, start(t, "rdma_client", append(r.ours(), "--json", ipv4, device, port)...)
				})
				if status := s.wait(); status != 0 {
					t.Errorf("the C server's status is %d", status)
				}
				c.succeeds()
				r.check(t, "client", figuresOfOurs(c))
				r.checkServer(t, "C server", figuresOfC(s, r.perftestRun))
				checkTransitions(t, c)
			})
		}
		if strings.Contains(r.theirs, "client") {
			t.Run(r.test+" "+r.flags+"/C client", func(t *testing.T) {
				s, c := bothEnd(t, func() (server, client *process) {
					s := serve(t, append([]string{"--once"}, r.ours()...)...)
					return s.process, r.c(t, s.port, ipv4)
				})
				if status := c.wait(); status != 0 {
					t.Errorf("the C client's status is %d", status)
				}
				s.succeeds()
				r.check(t, "C client", figuresOfC(c, r.perftestRun))
				r.checkServer(t, "server", figuresOfOurs(s))
				checkTransitions(t, s)
			})
		}
	}
}

// checkServer checks the results of a server. A passive server has only the last size.
func (r perftestRun) checkServer(t *testing.T, who string, got []figures) {
	t.Helper()
	passive := !r.latency() && !strings.HasPrefix(r.test, "send") && !r.has("-b")
	switch {
	case r.silent():
		if len(got) > 0 {
			t.Errorf("the %s shows %v", who, got)
		}
	case passive && r.has("-a"):
		if len(got) != 1 || got[0].size != 8<<20 || got[0].average <= 0 {
			t.Errorf("the %s shows %v, want the last size alone", who, got)
		}
	default:
		r.check(t, who, got)
	}
}

// waitLong is wait for a run that may move 200 MB in an emulated machine.
func (p *process) waitLong() int {
	p.t.Helper()
	timer := time.NewTimer(3 * testkit.Limit)
	defer timer.Stop()
	select {
	case <-p.over:
	case <-timer.C:
	}
	return p.wait()
}
