package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// record is one line of --json.
type record map[string]any

func (r record) str(key string) string {
	s, _ := r[key].(string)
	return s
}

// process is a running rdma_server or rdma_client. If it is still running when its test ends,
// it is killed.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	json bool

	mu      sync.Mutex
	changed *sync.Cond // signaled after a line, the end of the process, and a timeout
	lines   []string   // of stdout
	ended   bool
	late    bool
	stderr  bytes.Buffer // read it only after the process has ended
	over    chan struct{}

	records atomic.Pointer[[]record] // lines with --json; read it with recorded
}

// start runs a binary of this repository.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	return startBy(t, nil, name, args...)
}

// startBy is start with a prefix command, such as ip netns exec.
func startBy(t *testing.T, by []string, name string, args ...string) *process {
	t.Helper()
	return startCommand(t, name, slices.Concat(by, []string{filepath.Join(binaries, name)}, args))
}

// startCommand runs any program.
func startCommand(t *testing.T, name string, command []string) *process {
	t.Helper()
	return startAs(t, nil, name, command)
}

// startAs is startCommand with attributes of the process, such as its user.
func startAs(t *testing.T, attributes *syscall.SysProcAttr, name string, command []string) *process {
	t.Helper()
	p := &process{t: t, name: name, json: slices.Contains(command, "--json"), over: make(chan struct{})}
	p.changed = sync.NewCond(&p.mu)
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.SysProcAttr = attributes
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.follow(stdout)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.over
		if t.Failed() {
			t.Logf("%q: %v\nstdout:\n%s\nstderr:\n%s", command, p.cmd.ProcessState, strings.Join(p.lines, "\n"), &p.stderr)
		}
	})
	return p
}

func (p *process) follow(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		if p.json {
			records := append(p.recorded(), p.parse(lines.Bytes()))
			p.records.Store(&records)
		}
		p.changed.Broadcast()
		p.mu.Unlock()
	}
	p.cmd.Wait()
	p.mu.Lock()
	p.ended = true
	p.changed.Broadcast()
	p.mu.Unlock()
	close(p.over)
}

// parse checks a line of --json.
func (p *process) parse(line []byte) record {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		p.t.Errorf("%s --json wrote a line that is not a JSON object: %v: %s", p.name, err, line)
		return nil
	}
	for _, key := range []string{"time", "level", "msg", "event", "who"} {
		if r.str(key) == "" {
			p.t.Errorf("%s --json wrote a line without %q: %s", p.name, key, line)
		}
	}
	if _, err := time.Parse(time.RFC3339Nano, r.str("time")); err != nil {
		p.t.Errorf("%s --json: %v", p.name, err)
	}
	return r
}

// await waits until found returns true for the output so far, or fails the test.
func (p *process) await(what string, found func() bool) {
	p.t.Helper()
	timer := time.AfterFunc(testkit.Limit, func() {
		p.mu.Lock()
		p.late = true
		p.changed.Broadcast()
		p.mu.Unlock()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = false
	for !found() {
		if p.ended || p.late {
			p.t.Fatalf("%s: no %s (ended: %v)", p.name, what, p.ended)
		}
		p.changed.Wait()
	}
}

// event waits for the first record of an event with these attributes, given as key, value, …
// A value matches if the attribute's value contains it.
func (p *process) event(name string, attrs ...string) (found record) {
	p.t.Helper()
	p.await("event "+name+" "+strings.Join(attrs, " "), func() bool {
		found = p.find(name, attrs...)
		return found != nil
	})
	return found
}

// recorded returns the records so far.
func (p *process) recorded() []record {
	if all := p.records.Load(); all != nil {
		return *all
	}
	return nil
}

// find is event without waiting. A process that has not ended may write the record later.
func (p *process) find(name string, attrs ...string) record {
	for _, r := range p.recorded() {
		ok := r.str("event") == name
		for i := 0; ok && i < len(attrs); i += 2 {
			ok = strings.Contains(r.str(attrs[i]), attrs[i+1])
		}
		if ok {
			return r
		}
	}
	return nil
}

// all returns the records of an event so far.
func (p *process) all(name string) (found []record) {
	for _, r := range p.recorded() {
		if r.str("event") == name {
			found = append(found, r)
		}
	}
	return found
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v: %v", p.name, s, err)
	}
}

// wait returns the exit status; -1 means a signal.
func (p *process) wait() int {
	p.t.Helper()
	testkit.Receive(p.t, p.over, "end of "+p.name)
	return p.cmd.ProcessState.ExitCode()
}

// succeeds checks that the exit status is 0 and that stderr is empty.
func (p *process) succeeds() {
	p.t.Helper()
	if status := p.wait(); status != 0 || p.stderr.Len() > 0 {
		p.t.Fatalf("%s: status %d, stderr: %s", p.name, status, &p.stderr)
	}
}

// fails checks the exit status, and that stderr is one line that contains all of want. After a
// wrong command line it has two more lines.
func (p *process) fails(status int, want ...string) {
	p.t.Helper()
	if got := p.wait(); got != status {
		p.t.Errorf("%s: status %d, want %d; stderr: %s", p.name, got, status, &p.stderr)
	}
	text := p.stderr.String()
	first, rest, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(first, p.name+": ") {
		p.t.Errorf("stderr does not begin with %q: %s", p.name+": ", text)
	}
	if status == 2 {
		if !strings.HasPrefix(rest, "Usage: "+p.name) || strings.Count(text, "\n") != 3 {
			p.t.Errorf("stderr of a wrong command line: %s", text)
		}
	} else if rest != "" || !strings.HasSuffix(text, "\n") {
		p.t.Errorf("stderr is not one line: %q", text)
	}
	if strings.Count(first, "try:") > 1 || strings.Contains(first, "?;") {
		p.t.Errorf("stderr has two remedies, or a remedy after a question: %s", first)
	}
	for _, w := range want {
		if !strings.Contains(first, w) {
			p.t.Errorf("stderr lacks %q: %s", w, first)
		}
	}
	if p.json && status != 2 && p.find("run.failed", "level", "ERROR") == nil {
		p.t.Errorf("%s: no event run.failed", p.name)
	}
}

// server is an rdma_server --json that listens.
type server struct {
	*process
	port string
	held holdings
}

// serve starts a server on a port that is free.
func serve(t *testing.T, flags ...string) *server {
	t.Helper()
	return serveBy(t, nil, flags...)
}

// serveBy is serve with a prefix command; see startBy.
func serveBy(t *testing.T, by []string, flags ...string) *server {
	t.Helper()
	s := &server{process: startBy(t, by, "rdma_server", append(flags, "--json", device, "0")...)}
	_, port, err := net.SplitHostPort(s.event("server.listening").str("address"))
	if err != nil {
		t.Fatal(err)
	}
	s.port = port
	s.held.note(s)
	return s
}

// address returns the address that the server listens on.
func (s *server) address() string { return net.JoinHostPort(ipv4, s.port) }

// idle reports whether all jobs are over. A server ends its part of a job after the client's.
func (s *server) idle() bool {
	busy := map[string]bool{}
	for _, r := range s.recorded() {
		switch r.str("event") {
		case "job.chosen", "object.made":
			busy[r.str("who")] = true
		case "run.done", "client.failed":
			delete(busy, r.str("who"))
		}
	}
	delete(busy, "server") // what is made for all clients
	return len(busy) == 0
}

// stops interrupts the server between clients and checks its exit.
func (s *server) stops() {
	s.t.Helper()
	s.await("end of all jobs", s.idle)
	s.signal(os.Interrupt)
	s.succeeds()
}

// client starts a client of this server.
func (s *server) client(t *testing.T, flags ...string) *process {
	t.Helper()
	return start(t, "rdma_client", append(flags, "--json", ipv4, device, s.port)...)
}

// stillServes checks that a client succeeds, and that the server then has no more resources
// than at its start.
func (s *server) stillServes(t *testing.T) {
	t.Helper()
	s.client(t).succeeds()
	s.held.expect(t, s)
}
