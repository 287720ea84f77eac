// Faults at each step of each job: docs/faults.md. The whole table takes minutes: make faults.

package e2e

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

var (
	allFaults  = flag.Bool("faults", false, "TestFaults: every job; prints a table")
	someFaults = flag.String("faults.run", "", "TestFaults: only the runs whose name matches this, such as ^kill/in_RTS/client/send")
)

// faultTimeout is the --timeout of both ends. shortFault is far below it, and below what a queue pair retries.
const (
	faultTimeout = 4 * time.Second
	shortFault   = 300 * time.Millisecond
)

// faultJob is a job with flags that make it last some tenths of a second, if its amount of data can be chosen.
type faultJob struct {
	name  string
	flags []string
	quick bool // part of the short table
	brief bool // the job is over in a moment
}

var faultJobs = []faultJob{
	{name: "send", quick: true, brief: true},
	{name: "write-read", brief: true},
	{name: "write-imm", brief: true},
	{name: "exchange-write", brief: true},
	{name: "exchange-read", brief: true},
	{name: "atomic", brief: true},
	{name: "bulk", flags: []string{"--size", "256M"}, quick: true},
	{name: "file"},
	{name: "net-echo", brief: true},
	{name: "net-stream", flags: []string{"--size", "512M"}},
	{name: "bench-send-bw", flags: []string{"-D", "1", "-f", "0"}},
	{name: "bench-send-lat", flags: []string{"-D", "1", "-f", "0"}},
	{name: "bench-write-bw", flags: []string{"-D", "1", "-f", "0"}},
	{name: "bench-write-lat", flags: []string{"-D", "1", "-f", "0"}},
	{name: "bench-read-bw", flags: []string{"-D", "1", "-f", "0"}},
	{name: "bench-read-lat", flags: []string{"-D", "1", "-f", "0"}},
	{name: "bench-atomic-bw", flags: []string{"-D", "1", "-f", "0"}},
	{name: "bench-atomic-lat", flags: []string{"-D", "1", "-f", "0"}},
}

// faultStep is a moment of a connection: the relay holds a message.
type faultStep struct {
	name  string
	held  held
	moves bool // the job moves data, or has moved it
}

// midData has no message of its own: the fault comes after "in RTS" has passed.
const midData = "mid-data"

var faultSteps = []faultStep{
	{name: "connected", held: held{"client", oob.TypeHello, ""}},
	{name: "hello sent", held: held{"server", oob.TypeHello, ""}},
	{name: "hello answered", held: held{"client", oob.TypeEndpoints, ""}},
	{name: "in INIT", held: held{"server", oob.TypeBarrier, "receives posted"}},
	{name: "in RTS", held: held{"server", oob.TypeBarrier, "in RTS"}},
	{name: midData, held: held{"server", oob.TypeBarrier, "in RTS"}, moves: true},
	{name: "before the end", held: held{"client", oob.TypeBarrier, "done"}, moves: true},
	{name: "after the end", held: held{"server", oob.TypeBarrier, "done"}, moves: true},
}

// faultPlace is where the two ends run.
type faultPlace struct {
	address   string              // of the server
	relayAt   string              // address of the relay, which is the client's
	by        map[string][]string // a command in front of each end's
	device    map[string]string   // of each end
	in        func(end string, do func())
	cut, mend func()
}

// onePlace is this host.
func onePlace() faultPlace {
	return faultPlace{address: ipv4, relayAt: ipv4, device: map[string]string{theServer: device, theClient: device}, in: func(_ string, do func()) { do() }}
}

// faultRow is one run, and what came of it.
type faultRow struct {
	job   faultJob
	fault fault
	step  faultStep
	side  string // that the fault hits, or whose message it hits

	place  faultPlace
	folder string
	server *server
	client *process
	relay  *relay

	took     time.Duration     // from the fault to the end of the last survivor
	outcomes map[string]string // by end: "" for success, else the error
}

// fault is a kind of fault. strike returns when the fault is over, and reports the ends that survive it.
type fault struct {
	name    string
	message bool // hits a message, so its side is the message's sender
	quick   bool
	strike  func(*testing.T, *faultRow) (survivors []string)
	succeed bool // the job must succeed
}

const (
	theClient = "client"
	theServer = "server"
)

const (
	killed   = "kill"
	longStop = "long stop"
	cutWire  = "cut"
)

var bothEnds = []string{theClient, theServer}

var faults = []fault{
	{name: killed, quick: true, strike: func(t *testing.T, r *faultRow) []string {
		r.hit(t, unix.SIGKILL)
		r.relay.release()
		r.victim().wait()
		return []string{r.other()}
	}},
	{name: "short stop", succeed: true, strike: func(t *testing.T, r *faultRow) []string {
		r.hit(t, unix.SIGSTOP)
		r.relay.release()
		time.Sleep(shortFault)
		r.hit(t, unix.SIGCONT)
		return bothEnds
	}},
	{name: longStop, quick: true, strike: func(t *testing.T, r *faultRow) []string {
		r.hit(t, unix.SIGSTOP)
		r.relay.release()
		r.end(t, r.other())
		r.hit(t, unix.SIGCONT)
		return bothEnds
	}},
	{name: "short delay", message: true, succeed: true, strike: func(_ *testing.T, r *faultRow) []string {
		time.Sleep(shortFault)
		r.relay.release()
		return bothEnds
	}},
	{name: "message lost", message: true, strike: func(*testing.T, *faultRow) []string { return bothEnds }},
	{name: cutWire, strike: func(t *testing.T, r *faultRow) []string {
		r.place.cut()
		r.hit(t, unix.SIGCONT) // of a brief job
		r.relay.release()
		for _, end := range bothEnds {
			r.end(t, end)
		}
		r.place.mend()
		return bothEnds
	}},
	{name: "garbled", message: true, quick: true, strike: func(_ *testing.T, r *faultRow) []string {
		r.relay.garble = true
		r.relay.release()
		return bothEnds
	}},
}

// TestFaults makes one fault per run: each fault, at each step of each job, at each end.
func TestFaults(t *testing.T) {
	softtest.Long(t)
	var rows []*faultRow
	var mu sync.Mutex
	selected := regexp.MustCompile(*someFaults)
	t.Run("rows", func(t *testing.T) {
		for _, f := range faults {
			for _, step := range faultSteps {
				sides := bothEnds
				if f.name == cutWire {
					sides = sides[:1] // both ends survive it
				}
				if f.message {
					if step.name == midData {
						continue
					}
					sides = []string{step.held.from}
				}
				for _, side := range sides {
					for _, job := range faultJobs {
						if !*allFaults && !isQuick(f, step, side, job) {
							continue
						}
						name := strings.ReplaceAll(strings.Join([]string{f.name, step.name, side, job.name}, "/"), " ", "_")
						if !selected.MatchString(name) {
							continue
						}
						t.Run(name, func(t *testing.T) {
							noLeak(t)
							r := &faultRow{job: job, fault: f, step: step, side: side, outcomes: map[string]string{}}
							r.run(t)
							mu.Lock()
							defer mu.Unlock()
							rows = append(rows, r)
						})
					}
				}
			}
		}
	})
	if *allFaults {
		reportFaults(t, rows)
	}
}

// isQuick reports whether a run belongs to the short table, of twenty seconds. A job that is not brief differs
// from the others only when it moves data. An emulated machine has one job and one fault.
func isQuick(f fault, step faultStep, side string, job faultJob) bool {
	switch {
	case emulated:
		return f.name == killed && job.quick && job.brief
	case !f.quick || !job.quick:
		return false
	case !job.brief:
		return f.name == killed && step.moves
	}
	return f.name != longStop || side == theServer || step.held.name == "done" // a server may wait 15 s for a handshake
}

func (r *faultRow) victim() *process { return r.process(r.side) }

// hit sends the victim a signal. A client may have ended meanwhile.
func (r *faultRow) hit(t *testing.T, s unix.Signal) {
	t.Helper()
	if err := r.victim().cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

func (r *faultRow) process(end string) *process {
	if end == theServer {
		return r.server.process
	}
	return r.client
}

// other returns the end that the fault does not hit.
func (r *faultRow) other() string {
	if r.side == theServer {
		return theClient
	}
	return theServer
}

func (r *faultRow) run(t *testing.T) {
	r.folder = t.TempDir()
	r.place = onePlace()
	if r.fault.name == cutWire {
		r.place = twoHosts(t)
	}
	r.server = &server{process: startBy(t, r.place.by[theServer], "rdma_server", "--timeout", faultTimeout.String(), "--dir", r.folder,
		"--metrics", "127.0.0.1:0", "--json", r.place.device[theServer], "0")}
	_, r.server.port, _ = net.SplitHostPort(r.server.event("server.listening").str("address"))
	r.server.held.note(r.server)
	if r.fault.name != killed || r.side != theServer {
		r.serves(t) // so that what the first client leaves for all is there
	}
	before := r.countIdle(t)
	r.relay = relayTo(t, r.place, r.server.port, r.step.held)
	flags := append([]string{"--json", "--timeout", faultTimeout.String(), "--job", r.job.name}, r.job.flags...)
	if r.job.name == "file" {
		flags = append(flags, "--file", writeFile(t, "file", 64<<20))
	}
	r.client = startBy(t, r.place.by[theClient], "rdma_client", append(flags, r.place.relayAt, r.place.device[theClient], r.relay.port)...)
	testkit.Receive(t, r.relay.reached, "step: "+r.step.name)
	if r.step.name == midData {
		if r.job.brief { // the other end begins the job and waits
			r.hit(t, unix.SIGSTOP)
		}
		r.relay.release()
		time.Sleep(100 * time.Millisecond)
	}
	began := time.Now()
	survivors := r.fault.strike(t, r)
	for _, end := range survivors {
		r.outcomes[end] = r.end(t, end)
	}
	r.took = time.Since(began)
	r.check(t, survivors)
	if r.process(theServer).running() {
		r.relay.release()
		r.checkServer(t, before)
	}
}

// serves checks that the server serves an honest client, and then has no more files and objects than before.
func (r *faultRow) serves(t *testing.T) {
	t.Helper()
	// After a cut the kernel needs a moment to find the other host again.
	startBy(t, r.place.by[theClient], "rdma_client", "--json", "--retry", "1m", r.place.address, r.place.device[theClient], r.server.port).succeeds()
	r.server.held.expect(t, r.server)
}

// end waits for an end's part of the job and returns its error, "" after a success.
func (r *faultRow) end(t *testing.T, end string) (problem string) {
	t.Helper()
	if end == theClient {
		if r.client.wait() != 0 {
			return r.client.stderr.String()
		}
		return ""
	}
	who := r.session()
	r.server.await("end of the job", func() bool {
		failed := r.server.find("client.failed", "who", who)
		if failed != nil {
			problem = failed.str("error")
		}
		return failed != nil || r.server.find("run.done", "who", who) != nil
	})
	return problem
}

// session is the server's name of the client.
func (r *faultRow) session() (who string) {
	r.server.await("a client", func() bool {
		for _, name := range []string{"client.accepted", "client.failed"} { // it may fail before its hello has come
			if found := r.server.find(name, "peer", r.relay.address()); found != nil {
				who = found.str("who")
			}
		}
		return who != ""
	})
	return who
}

// running reports whether a process has not ended.
func (p *process) running() bool {
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

// check checks the outcomes of the ends that survived.
func (r *faultRow) check(t *testing.T, survivors []string) {
	t.Helper()
	for _, end := range survivors {
		problem := r.outcomes[end]
		switch {
		case problem == "":
			continue
		case r.fault.succeed:
			t.Errorf("the %s failed: %s", end, problem)
			continue
		}
		if !containsAny(problem, "waiting for", "sending", "step", "hello", "barrier", "exchange", "connect", "no progress", "ibv_modify_qp", "read rdma", "write rdma", "prepare", "open resources", "the peer's parameter", "no job", "the file name") {
			t.Errorf("the %s names no step: %s", end, problem)
		}
		if !containsAny(problem, "try:", "look at", "fix that at the peer", "longer timeout", "run the same release", "start both ends", "does ping") {
			t.Errorf("the %s says nothing to try: %s", end, problem)
		}
	}
	if stored := r.outcomes[theServer] == "" && r.outcomes[theClient] == ""; r.job.name == "file" && stored && len(survivors) == 2 {
		holds(t, r.folder, "file")
	}
}

func containsAny(text string, any ...string) bool {
	for _, one := range any {
		if strings.Contains(text, one) {
			return true
		}
	}
	return false
}

// countIdle is count when the goroutines of the client before have ended: the least of a few counts.
func (r *faultRow) countIdle(t *testing.T) map[string]float64 {
	t.Helper()
	least := r.count(t)
	for range 5 {
		time.Sleep(10 * time.Millisecond)
		if now := r.count(t); now[goroutineSeries] < least[goroutineSeries] {
			least = now
		}
	}
	return least
}

// goroutineSeries leaves out the goroutines that collect the metrics.
const goroutineSeries = "rawverbs_goroutines"

// count returns what a server has while no client is there.
func (r *faultRow) count(t *testing.T) map[string]float64 {
	t.Helper()
	address := r.server.event("metrics.served").str("address")
	var text string
	r.place.in(theServer, func() { text = getAlone(t, address, "/metrics") })
	counts := map[string]float64{}
	for _, series := range []string{"rawverbs_clients", "rawverbs_budget_memory_bytes", goroutineSeries} {
		counts[series] = valueOf(t, text, series)
	}
	return counts
}

// checkServer checks that the server serves another client, and that nothing of the first is left: objects,
// goroutines, files, memory of the budget, hidden files.
func (r *faultRow) checkServer(t *testing.T, before map[string]float64) {
	t.Helper()
	r.serves(t)
	var now map[string]float64
	testkit.Until(t, "end of what the server had for its clients", func() bool {
		now = r.count(t)
		return now["rawverbs_clients"] == 0 && now["rawverbs_budget_memory_bytes"] == 0 && now[goroutineSeries] <= before[goroutineSeries]
	}, func() string {
		return fmt.Sprintf("the server has %v, and had %v", now, before)
	})
	hidden, _ := filepath.Glob(filepath.Join(r.folder, ".*"))
	if len(hidden) > 0 {
		t.Errorf("the folder holds %q", hidden)
	}
	r.server.stops()
	made, freed := len(r.server.all("object.made")), len(r.server.all("object.freed"))
	if made != freed {
		t.Errorf("the server made %d objects and freed %d", made, freed)
	}
}

// getAlone fetches a page on the thread of its caller, which may be in another network namespace.
func getAlone(t *testing.T, address, path string) string {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(testkit.Context(t), "tcp", address)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer conn.Close()
	conn.SetDeadline(testkit.Deadline())
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, address)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}
