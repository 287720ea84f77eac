// make soak: many clients for a long time, and a server that may lose none of them and keep nothing.
//
// Most clients are run.Client in this process, because 500 processes keep two processors busy with
// starting. The others are processes of rdma_client. The server is a process of its own, and says
// through /metrics what it has. The test that belongs to every run of cmd/e2e is short.

package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"

	rdmarun "github.com/rawverbs/rawverbs/cmd/internal/app/run"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

var (
	soakConnects  = flag.Int("soak.connects", 100, "TestSoak: connects one after another, 8 at a time")
	soakClients   = flag.Int("soak.clients", min(sideBySide, 20), "TestSoak: clients at once, with all kinds of jobs")
	soakProcesses = flag.Int("soak.processes", 4, "TestSoak: how many of the clients at once are processes")
	soakBusy      = flag.Int("soak.busy", 0, "TestSoak: endless loops per processor beside the clients at once")
	soakTable     = flag.String("soak.table", "", "TestSoak: file for the table")
)

// soakJobs are the clients' jobs, in turn. bulk, file and net move the most.
var soakJobs = [][]string{
	{"send"}, {"write-read"}, {"write-imm"}, {"exchange-write"}, {"exchange-read"}, {"atomic", "--count", "100"},
	{"bulk", "--size", "4M"}, {"bulk", "--size", "2M", "--op", "read"}, {"bulk", "--size", "1M", "--op", "send"},
	{"net-echo"}, {"net-stream", "--size", "1M"},
	{"bench-send-lat", "-n", "100"}, {"bench-write-bw", "-s", "64K", "-n", "50"}, {"bench-read-bw", "-s", "16K", "-n", "100"}, {"bench-atomic-lat", "-n", "100"},
}

// soakSlackMemory is what the collector and the system may keep beside the peak of the first clients.
const soakSlackMemory = 24 << 20

// reclaimEvery is how often the server gives memory back to the system.
const reclaimEvery = 2 * time.Second

// TestSoak runs a server for many clients. None may fail. Afterwards the server has as much memory, as
// many goroutines and open files as after the first clients.
func TestSoak(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := &soak{server: serve(t, "--metrics", "127.0.0.1:0", "--max-clients", strconv.Itoa(2**soakClients+64)), began: time.Now()}
	s.metrics = "http://" + s.event("metrics.served").str("address") + "/metrics"
	s.table.WriteString("| time | phase | clients | done | failed | MB/s | RSS MiB | goroutines | files | retransmits |\n|---|---|---|---|---|---|---|---|---|---|\n")

	s.crowd(t, "warm-up", min(*soakClients, 60), 0, 0)
	before := s.steady(t)
	s.connects(t, *soakConnects)
	s.settled(t, before)
	s.crowd(t, "at once", *soakClients, *soakProcesses, *soakBusy)
	after := s.settled(t, before)

	total := min(*soakClients, 60) + *soakConnects + *soakClients
	if after.done != float64(total) || after.failed != 0 || after.retryExceeded != 0 {
		t.Errorf("the server counts %v jobs done, %v failed and %v RETRY_EXC_ERR; want %d, 0 and 0", after.done, after.failed, after.retryExceeded, total)
	}
	s.held.expect(t, s.server)
	s.stops()
	t.Logf("%s on %s\n%s", t.Name(), device, &s.table)
	if *soakTable != "" {
		if err := os.WriteFile(*soakTable, []byte(s.table.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

type soak struct {
	*server
	metrics string
	began   time.Time
	table   strings.Builder
}

// load is what a server says of itself.
type load struct {
	at                                             time.Time
	clients, done, failed, bytes                   float64
	memory, goroutines, retransmits, retryExceeded float64
}

func (s *soak) look(t *testing.T) load {
	_, text := get(t, s.metrics)
	value := func(series string) float64 { return max(0, valueOf(t, text, series)) }
	f := load{
		at: time.Now(), clients: value("rawverbs_clients"),
		memory: value("process_resident_memory_bytes"), goroutines: value("rawverbs_goroutines"),
		retransmits:   value(fmt.Sprintf("rawverbs_retransmits_total{device=%q}", device)),
		retryExceeded: value(`rawverbs_completions_total{status="IBV_WC_RETRY_EXC_ERR"}`),
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		n, _ := strconv.ParseFloat(fields[len(fields)-1], 64) // comments have no number
		switch {
		case strings.HasPrefix(line, "rawverbs_jobs_total{") && strings.Contains(line, `"succeeded"`):
			f.done += n
		case strings.HasPrefix(line, "rawverbs_jobs_total{"):
			f.failed += n
		case strings.HasPrefix(line, "rawverbs_job_bytes_total{"):
			f.bytes += n
		}
	}
	return f
}

// watch adds a row to the table now and then until ctx ends, and once more then.
func (s *soak) watch(ctx context.Context, t *testing.T, phase string) {
	last := s.look(t)
	next := 50 // the moment of the next row; they become rarer, so that the table of a long run stays short
	for over, moment := false, 0; !over; moment++ {
		time.Sleep(testkit.Moment)
		if over = ctx.Err() != nil; !over && moment < next {
			continue
		}
		next += 50 + next/20
		f := s.look(t)
		fmt.Fprintf(&s.table, "| %.0f s | %s | %.0f | %.0f | %.0f | %.1f | %.0f | %.0f | %d | %.0f |\n", f.at.Sub(s.began).Seconds(), phase, f.clients, f.done,
			f.failed, (f.bytes-last.bytes)/1e6/f.at.Sub(last.at).Seconds(), f.memory/(1<<20), f.goroutines, filesOf(s.process), f.retransmits)
		last = f
	}
}

// during runs clients and watches the server meanwhile.
func (s *soak) during(t *testing.T, phase string, clients func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var watcher sync.WaitGroup
	watcher.Go(func() { s.watch(ctx, t, phase) })
	clients()
	stop()
	watcher.Wait()
	if t.Failed() {
		t.Fatalf("after %s:\n%s", phase, &s.table)
	}
}

// steady waits until the server has no clients, and what it gives back to the system is given back: its
// memory no longer falls. It returns what the server then has.
func (s *soak) steady(t *testing.T) load {
	t.Helper()
	least, since := s.look(t), 0
	testkit.Until(t, "server without clients whose memory is steady", func() bool {
		f := s.look(t)
		if since++; f.clients > 0 || f.memory < least.memory || f.goroutines < least.goroutines {
			least, since = f, 0
		}
		time.Sleep(reclaimEvery / 4)
		return since > 4
	})
	return least
}

// settled waits until the clients have left and the server has no more goroutines than before. It may have
// a little more memory.
func (s *soak) settled(t *testing.T, before load) (f load) {
	t.Helper()
	testkit.Until(t, "end of what the server had for its clients", func() bool {
		f = s.look(t)
		return f.clients == 0 && f.memory <= before.memory+soakSlackMemory && f.goroutines <= before.goroutines
	}, func() string {
		return fmt.Sprintf("the server has %.0f clients, %.0f MiB and %.0f goroutines; before %.0f MiB and %.0f\n%s", f.clients,
			f.memory/(1<<20), f.goroutines, before.memory/(1<<20), before.goroutines, &s.table)
	})
	return f
}

// connects runs so many clients one after another, 8 at a time.
func (s *soak) connects(t *testing.T, n int) {
	s.during(t, "connects", func() {
		var left atomic.Int64
		left.Store(int64(n))
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for left.Add(-1) >= 0 && !t.Failed() {
					if err := s.job([]string{"send"}); err != nil {
						t.Errorf("a connect: %v", err)
					}
				}
			})
		}
		workers.Wait()
	})
}

// crowd runs n clients with jobs of all kinds at once. Some are processes.
func (s *soak) crowd(t *testing.T, phase string, n, processes, busy int) {
	defer keepBusy(t, busy)()
	s.during(t, phase, func() {
		var clients sync.WaitGroup
		for i := range n {
			args := soakJobs[i%len(soakJobs)]
			if i < processes {
				c := s.client(t, append([]string{"--job"}, args...)...)
				clients.Go(func() {
					<-c.over
					if !c.cmd.ProcessState.Success() {
						t.Errorf("%v: %v %s", args, c.cmd.ProcessState, &c.stderr)
					}
				})
				continue
			}
			clients.Go(func() {
				if err := s.job(args); err != nil {
					t.Errorf("%v: %v", args, err)
				}
			})
		}
		clients.Wait()
	})
}

// job is rdma_client in this process.
func (s *soak) job(args []string) error {
	o := rdmarun.ClientOptions{Server: ipv4, Options: rdmarun.Options{Device: device, IBPort: 1, Timeout: testkit.Limit, Logger: slog.New(slog.DiscardHandler)}}
	var err error
	if o.TCPPort, err = strconv.Atoi(s.port); err != nil {
		return err
	}
	if o.Selection, err = rdmarun.Select(rdmarun.ClientRole, append([]string{"--job"}, args...), func(*pflag.FlagSet) {}); err != nil {
		return err
	}
	for _, g := range o.Flags {
		g.Flags.SetOutput(io.Discard)
		if err := g.Flags.Parse(args[1:]); err != nil {
			return err
		}
	}
	return rdmarun.Client(context.Background(), o)
}

// keepBusy starts endless loops, so many per processor. They end with stop, and in any case after some
// minutes.
func keepBusy(t *testing.T, each int) (stop func()) {
	var loops []*exec.Cmd
	for range each * runtime.NumCPU() {
		c := exec.Command("timeout", "600", "/bin/sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		loops = append(loops, c)
	}
	return func() {
		for _, c := range loops {
			_ = c.Process.Signal(os.Interrupt) // timeout passes it on
			_ = c.Wait()
		}
	}
}

// filesOf returns how many files a process has open.
func filesOf(p *process) int {
	files, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "fd"))
	return len(files)
}
