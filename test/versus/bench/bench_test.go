package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const perftestBandwidth = `
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Number of qps   : 1		Transport type : IB
 local address: LID 0000 QPN 0x0011 PSN 0x2d88d2 RKey 0x0001ab VAddr 0x007f9b8c000000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:99:00:01
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      500             70.74              20.00  		   0.000311
---------------------------------------------------------------------------------------
`

const perftestLatency = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       10000          25.88          912.22       30.54     	       33.02       	13.25		61.47   		155.96
`

const oursBandwidth = `{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"measure","event":"bench.begun","who":"client","size":65536,"iters":500}
{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":" 65536 …","event":"bench.result","who":"client","by":"this end","size":65536,"iters":500,"bytes_per_s":20971520,"average":20}
`

const oursLatency = `{"event":"bench.result","size":2,"iters":10000,"t_typical_us":30.54,"t_avg_us":33,"percentiles_us":{"99":61.47,"99.9":156}}
`

func TestRead(t *testing.T) {
	bandwidth, latency := outcome{65536, 500, 20 << 20, 0}, outcome{2, 10000, 30.54, 61.47}
	for _, c := range []struct {
		name    string
		read    func([]byte, bool) (outcome, error)
		text    string
		latency bool
		want    outcome
		fails   string
	}{
		{"perftest's bandwidth", readPerftest, perftestBandwidth, false, bandwidth, ""},
		{"perftest's latency", readPerftest, perftestLatency, true, latency, ""},
		{"perftest's latency without a deviation", readPerftest, strings.Replace(perftestLatency, "13.25", "-nan", 1), true, latency, ""},
		{"perftest's other table", readPerftest, perftestBandwidth, true, outcome{}, "no column t_typical[usec]"},
		{"no table", readPerftest, "Couldn't connect", false, outcome{}, "0 rows of figures"},
		{"two rows", readPerftest, perftestLatency + " 4 1 1 1 1 1\n", true, outcome{}, "2 rows of figures"},
		{"our bandwidth", readOurs, oursBandwidth, false, bandwidth, ""},
		{"our latency", readOurs, oursLatency, true, latency, ""},
		{"no result", readOurs, "{}\n", true, outcome{}, "0 results"},
		{"not JSON", readOurs, oursLatency + "rdma_client: it failed\n", true, outcome{}, "no JSON: rdma_client"},
	} {
		got, err := c.read([]byte(c.text), c.latency)
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, %v; want %v, an error with %q", c.name, got, err, c.want, c.fails)
		}
	}
}

func TestCheck(t *testing.T) {
	m := measure{Test: "write-bw", Size: 65536, Iters: 500}
	for _, c := range []struct {
		got  outcome
		good bool
	}{
		{outcome{65536, 500, 1, 0}, true}, {outcome{65536, 499, 1, 0}, false}, {outcome{2, 500, 1, 0}, false}, {outcome{65536, 500, 0, 0}, false}, {outcome{65536, 500, math.Inf(1), 0}, false},
	} {
		e := newEnd(context.Background(), []string{"true"})
		if _, err := e.check(func([]byte) (outcome, error) { return c.got, nil }, m); (err == nil) != c.good {
			t.Errorf("%v: %v", c.got, err)
		}
	}
}

// TestTurn runs turns of sockets with a real server process, which is this test binary.
func TestTurn(t *testing.T) {
	for what, test := range map[string]string{"datagrams": "write-bw", "tcp": "write-bw", "blocking": "send-lat", "near": "send-lat", "polling": "send-lat", "tcp-echo": "send-lat"} {
		m := measure{Test: test, Size: 16 << 10, Iters: 200} // more than a window
		if m.latency() {
			m.Size = 2
		}
		r, err := sockets{what}.run(t.Context(), m)
		if err != nil || !(r.Figure > 0) || !(r.Processor > 0) || (r.P99 > 0) != m.latency() || (r.CRCs > 0) != (what == "datagrams") {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
}

// TestTurnFails checks that the error of a failed turn has the output of the program.
func TestTurnFails(t *testing.T) {
	m := measure{Test: "write-bw", Size: 1, Iters: 1}
	number, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name, _ := self()
	serves := []string{name, socketServer, fmt.Sprint(number)}
	for want, p := range map[string]pair{
		"ended before it listened": {server: []string{"sh", "-c", "echo sorry; exit 3"}, client: []string{"true"}, port: number},
		"sorry":                    {server: []string{"sh", "-c", "echo sorry; exit 3"}, client: []string{"true"}, port: number},
		"no device":                {server: serves, client: []string{"sh", "-c", "echo no device; exit 1"}, port: number},
		"no-such-program":          {server: []string{"no-such-program"}, client: []string{"true"}, port: number},
	} {
		if _, err := p.run(t.Context(), m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

type fixed struct{ values []float64 }

func (f *fixed) run(context.Context, measure) (reading, error) {
	v := f.values[0]
	f.values = f.values[1:]
	return reading{Figure: v, Processor: 2 * v, CRCs: v / 2}, nil
}

func TestRatios(t *testing.T) {
	r := result{Part: "perftest", comparison: comparison{Name: "SEND", Measure: measure{Test: "send-lat"}, Aim: 1.05, ProcessorAim: 0.9,
		programs: [2]program{&fixed{[]float64{10, 30, 20}}, &fixed{[]float64{20, 10, 20}}}}}
	for i := range 3 {
		turn, err := r.turn(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		r.Rounds = append(r.Rounds, turn)
	}
	if got, want := r.line(), "SEND: 1.00 (0.50 to 3.00), processor time 1.00 (0.50 to 3.00) ≤ 1.05: met"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.Measure.Test, r.Aim = "send-bw", 1.01
	if got, want := r.aim(), "≥ 1.01: missed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var text bytes.Buffer
	if err := printTables(&text, []result{r}, true); err != nil {
		t.Fatal(err)
	}
	if want := "| SEND | more | 1.00 (0.50 to 3.00) | ≥ 1.01: missed | 1.00 (0.50 to 3.00) | ≤ 0.90: missed |  |"; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in:\n%s", want, text.String())
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %v", got)
	}
}

type failing struct{ left int }

func (f *failing) run(context.Context, measure) (reading, error) {
	if f.left--; f.left >= 0 {
		return reading{}, errors.New("no luck")
	}
	return reading{Figure: 1}, nil
}

// TestRepeated checks that a failed round is repeated and reported, and that too many
// failures are an error.
func TestRepeated(t *testing.T) {
	for failures, fails := range map[int]bool{0: false, 1: false, mostRepeated + 1: true} {
		c := comparison{Name: "it", programs: [2]program{&failing{failures}, &failing{}}}
		var progress bytes.Buffer
		r, err := c.measure(t.Context(), "perftest", 3, &progress)
		if fails != (err != nil && strings.Contains(err.Error(), "no luck")) {
			t.Errorf("%d failures: %v", failures, err)
		}
		if fails {
			continue
		}
		text := repeated([]result{r})
		if len(r.Rounds) != 3 || len(r.Repeated) != failures || (text == "") != (failures == 0) || strings.Contains(progress.String(), "no luck") != (failures > 0) {
			t.Errorf("%d failures: %+v, %q", failures, r, text)
		}
	}
}

// TestParts checks that the comparisons of each part have different names and programs.
func TestParts(t *testing.T) {
	for _, part := range parts {
		seen := map[string]bool{}
		for _, c := range part.make(rxe0) {
			if seen[c.Name] || c.programs[0] == nil || c.programs[1] == nil || c.Measure.Iters < 5 {
				t.Errorf("%s: %+v", part.name, c)
			}
			seen[c.Name] = true
		}
	}
}

// TestKept checks that the results in several files, in any order, give one table.
func TestKept(t *testing.T) {
	var files []string
	for _, part := range []string{"sockets", "perftest"} {
		name := filepath.Join(t.TempDir(), part)
		text := fmt.Sprintf(`[{"Part":%q,"Name":"READ","Measure":{"Test":"read-bw"},"Aim":1,"Rounds":[[{"Figure":2},{"Figure":1}],[{"Figure":4},{"Figure":1}]]}]`, part)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	var out, progress bytes.Buffer
	if err := command(t.Context(), append([]string{"table"}, files...), &out, &progress); err != nil {
		t.Fatal(err)
	}
	first, second := strings.Index(out.String(), parts[0].about), strings.Index(out.String(), parts[2].about)
	if first < 0 || second < first || strings.Count(out.String(), "3.00") != 2 || !strings.Contains(out.String(), "2 rounds") {
		t.Errorf("%s", &out)
	}
	if err := command(t.Context(), []string{"nothing"}, &out, &progress); err == nil || !strings.Contains(err.Error(), "usage: ") {
		t.Errorf("an unknown part: %v", err)
	}
}

// TestMain lets the test binary run as a server or client of sockets.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "sockets-") {
		main()
		return
	}
	os.Exit(m.Run())
}
