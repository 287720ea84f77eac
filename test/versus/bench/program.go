// The programs that are measured: a server and a client per turn, and the results that both
// print.

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rawverbs/rawverbs/internal/event"
)

// program makes one measurement.
type program interface {
	run(ctx context.Context, m measure) (reading, error)
}

// reading is the result of a measurement.
type reading struct {
	Figure    float64 // bytes per second, or half a round trip in microseconds
	P99       float64 // 99th percentile of half a round trip, in microseconds
	Processor float64 // processor time of both ends, user and system, in microseconds per MiB or round trip
	CRCs      float64 // what the CRCs of both ends would add, if they compute none
}

// pair is a server and its client, with a function that reads their output.
type pair struct {
	server, client []string
	port           int
	read           func(output []byte) (outcome, error)
	silent         bool // the server prints no result
}

// outcome is the result that a process prints.
type outcome struct {
	size, iters int
	figure, p99 float64
}

// turnLimit is longer than any turn, even on a busy machine.
const turnLimit = 4 * time.Minute

var errTooLong = fmt.Errorf("it took more than %v; try: run it again when the machine is idle", turnLimit)

// run runs both programs with m and returns the client's figures.
func (p pair) run(ctx context.Context, m measure) (reading, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, turnLimit, errTooLong)
	defer cancel()
	server, client := newEnd(ctx, p.server), newEnd(ctx, p.client)
	if err := server.cmd.Start(); err != nil {
		return reading{}, err
	}
	over := make(chan error, 1)
	go func() { over <- server.cmd.Wait() }()
	err := listens(ctx, server.cmd.Process.Pid, p.port, over)
	if err == nil {
		err = client.run(ctx)
	}
	if err != nil {
		cancel()
		<-over //nolint:errcheck // cancel has stopped the server
		return reading{}, fmt.Errorf("%w; the server printed:\n%s", err, server.tail())
	}
	if err := <-over; err != nil {
		return reading{}, server.failed(cmp.Or(context.Cause(ctx), err))
	}
	result, err := client.check(p.read, m)
	if err == nil && !p.silent {
		_, err = server.check(p.read, m)
	}
	return reading{Figure: result.figure, P99: result.p99, Processor: (server.processor() + client.processor()) / m.units()}, err
}

// end is one of the two processes.
type end struct {
	cmd    *exec.Cmd
	output bytes.Buffer // stdout and stderr
}

func newEnd(ctx context.Context, command []string) *end {
	e := &end{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	e.cmd.Stdout, e.cmd.Stderr = &e.output, &e.output
	return e
}

// run runs the process until its end. The error has its output.
func (e *end) run(ctx context.Context) error {
	if err := e.cmd.Run(); err != nil {
		return e.failed(cmp.Or(context.Cause(ctx), err))
	}
	return nil
}

func (e *end) failed(err error) error {
	return fmt.Errorf("%s: %w; it printed:\n%s", strings.Join(e.cmd.Args, " "), err, e.tail())
}

// tail returns the end of the output.
func (e *end) tail() []byte {
	const enough = 2000
	return e.output.Bytes()[max(0, e.output.Len()-enough):]
}

// processor returns the processor time of the process and of those that it has waited for, in microseconds.
func (e *end) processor() float64 {
	return float64((e.cmd.ProcessState.UserTime() + e.cmd.ProcessState.SystemTime()).Microseconds())
}

// check reads the result of a process and compares it with m.
func (e *end) check(read func([]byte) (outcome, error), m measure) (outcome, error) {
	t, err := read(e.output.Bytes())
	if err == nil && (t.size != m.Size || t.iters != m.Iters || !(t.figure > 0) || math.IsInf(t.figure, 0)) {
		err = fmt.Errorf("it reported %d messages of %d bytes, and a figure of %v", t.iters, t.size, t.figure)
	}
	if err != nil {
		return t, e.failed(err)
	}
	return t, nil
}

// listens waits until the process listens on the port, in the process's network namespace.
// It does not connect, because perftest serves only the first connection.
func listens(ctx context.Context, pid, port int, over chan error) error {
	const state = "0A" // TCP_LISTEN
	suffix := fmt.Sprintf(":%04X", port)
	for {
		for _, table := range []string{"tcp", "tcp6"} {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table)) // missing if the process has ended
			for line := range strings.Lines(string(text)) {
				if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], suffix) && f[3] == state {
					return nil
				}
			}
		}
		select {
		case err := <-over:
			over <- err
			return fmt.Errorf("the server ended before it listened: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// freePort returns a TCP port that is free now.
func freePort(ctx context.Context) (int, error) {
	var plainly net.ListenConfig
	l, err := plainly.Listen(ctx, "tcp", ":0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (m measure) args() []string {
	return slices.Concat([]string{"-s", strconv.Itoa(m.Size), "-n", strconv.Itoa(m.Iters)}, m.Flags)
}

// ours are rdma_server and rdma_client, with the jobs bench-….
type ours struct {
	by      []string // a prefix command, such as ip netns exec
	device  string
	gid     string // "": automatic
	address string // address of the server
	flags   []string
}

func (o ours) run(ctx context.Context, m measure) (reading, error) {
	number, err := freePort(ctx)
	if err != nil {
		return reading{}, err
	}
	at := []string{o.device, strconv.Itoa(number)}
	if o.gid != "" {
		at = append(at, o.gid)
	}
	p := pair{port: number, read: func(output []byte) (outcome, error) { return readOurs(output, m.latency()) }}
	p.server = slices.Concat(o.by, []string{"./rdma_server", "--once", "--json"}, o.flags, at)
	p.client = slices.Concat(o.by, []string{"./rdma_client", "--json", "--job", "bench-" + m.Test}, o.flags, m.args(), []string{o.address}, at)
	return p.run(ctx, m)
}

// remote is rdma_client, with an rdma_server that already runs on another machine.
type remote struct {
	address, device, gid string // gid "": automatic
	prepare              string // a command of the shell that makes the device ready
}

// serverPort is the port of that rdma_server: the default.
const serverPort = "18515"

func (r remote) run(ctx context.Context, m measure) (reading, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, turnLimit, errTooLong)
	defer cancel()
	if err := newEnd(ctx, []string{"sh", "-c", r.prepare}).run(ctx); err != nil {
		return reading{}, err
	}
	at := []string{r.address, r.device, serverPort}
	if r.gid != "" {
		at = append(at, r.gid)
	}
	client := newEnd(ctx, slices.Concat([]string{"./rdma_client", "--json", "--job", "bench-" + m.Test}, m.args(), at))
	if err := client.run(ctx); err != nil {
		return reading{}, err
	}
	result, err := client.check(func(output []byte) (outcome, error) { return readOurs(output, m.latency()) }, m)
	return reading{Figure: result.figure, P99: result.p99}, err
}

// readOurs reads the result from the lines of --json.
func readOurs(output []byte, latency bool) (outcome, error) {
	var results []outcome
	for line := range bytes.Lines(output) {
		var r struct {
			Event       string  `json:"event"`
			Size        int     `json:"size"`
			Iters       int     `json:"iters"`
			Bandwidth   float64 `json:"bytes_per_s"`
			Typical     float64 `json:"t_typical_us"`
			Percentiles struct {
				P99 float64 `json:"99"`
			} `json:"percentiles_us"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return outcome{}, fmt.Errorf("no JSON: %s", line)
		}
		if r.Event != event.BenchResult.Name() {
			continue
		}
		t := outcome{size: r.Size, iters: r.Iters, figure: r.Bandwidth}
		if latency {
			t.figure, t.p99 = r.Typical, r.Percentiles.P99
		}
		results = append(results, t)
	}
	if len(results) != 1 {
		return outcome{}, fmt.Errorf("%d results, want 1", len(results))
	}
	return results[0], nil
}

// perftest are the C programs of perftest.
type perftest struct {
	on
	by    []string // a prefix command, such as rawverbs run --
	flags []string
}

func (o perftest) name(m measure) string { return "ib_" + strings.ReplaceAll(m.Test, "-", "_") }

// run leaves out the processor time that perftest needs without messages: it measures the processor's clock for 0.2 s.
func (o perftest) run(ctx context.Context, m measure) (reading, error) {
	whole, err := o.once(ctx, m)
	if err != nil {
		return reading{}, err
	}
	units := m.units()
	m.Iters = leastIters
	few, err := o.once(ctx, m)
	whole.Processor -= few.Processor * m.units() / units
	return whole, err
}

// leastIters is the smallest number of messages that perftest accepts.
const leastIters = 5

func (o perftest) once(ctx context.Context, m measure) (reading, error) {
	number, err := freePort(ctx)
	if err != nil {
		return reading{}, err
	}
	// -F: otherwise perftest complains about processors with a variable frequency
	command := slices.Concat(o.by, []string{o.name(m), "-d", o.device, "-x", o.gid, "-F", "-p", strconv.Itoa(number)}, o.flags, m.args())
	p := pair{server: command, client: append(slices.Clone(command), o.address), port: number,
		read: func(output []byte) (outcome, error) { return readPerftest(output, m.latency()) }}
	p.silent = m.latency() && m.Test != "send-lat" && m.Test != "write-lat" // only the client measures
	return p.run(ctx, m)
}

// readPerftest reads the row of perftest's table. The header names the columns: bytes,
// iterations, peak, average, messages; or bytes, iterations, least, most, typical,
// average, deviation, 99th percentile and others.
func readPerftest(output []byte, latency bool) (outcome, error) {
	const average, typical, p99 = 3, 4, 7
	var rows []outcome
	header := false
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "#bytes") {
			want := "BW average[MB/sec]"
			if latency {
				want = "t_typical[usec]"
			}
			if header = strings.Contains(line, want); !header {
				return outcome{}, fmt.Errorf("no column %s: %s", want, line)
			}
			continue
		}
		row, ok := numbers(line)
		if !header || !ok || len(row) <= typical {
			continue
		}
		t := outcome{size: int(row[0]), iters: int(row[1]), figure: row[average] * (1 << 20)}
		if latency {
			t.figure = row[typical]
			if len(row) > p99 {
				t.p99 = row[p99]
			}
		}
		rows = append(rows, t)
	}
	if len(rows) != 1 {
		return outcome{}, fmt.Errorf("%d rows of figures, want 1", len(rows))
	}
	return rows[0], nil
}

// numbers reads a line that has only numbers. C's "-nan" is a number, because perftest may
// print it as the deviation.
func numbers(line string) (row []float64, ok bool) {
	for _, field := range strings.Fields(line) {
		f, err := strconv.ParseFloat(strings.TrimPrefix(field, "-"), 64)
		if err != nil {
			return nil, false
		}
		row = append(row, f)
	}
	return row, true
}
