//go:build cabi

package cabi

import (
	"bufio"
	"fmt"
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

// patience is the limit of a whole program. Some move hundreds of megabytes, or call 100,000 functions.
const patience = 5 * testkit.Limit

// program is a running program. Its output, of both streams, is collected in lines. If it still
// runs when its test ends, its process group is killed.
type program struct {
	t       *testing.T
	command []string
	cmd     *exec.Cmd
	over    chan struct{}

	mu    sync.Mutex
	lines []string
}

// onSoft starts a program on soft0: rawverbs run -- NAME ARGUMENT…
func onSoft(t *testing.T, command ...string) *program {
	t.Helper()
	return start(t, slices.Concat([]string{ours("rawverbs"), "run", "--"}, command)...)
}

// ours returns the path of a program of this repository.
func ours(name string) string { return filepath.Join(bin, name) }

// start starts any program as an ordinary user. The arguments before the command that have the
// form NAME=VALUE are added to its environment.
func start(t *testing.T, command ...string) *program {
	t.Helper()
	p := &program{t: t, over: make(chan struct{})}
	env := os.Environ()
	for strings.Contains(command[0], "=") && !filepath.IsAbs(command[0]) {
		env, command = append(env, command[0]), command[1:]
	}
	p.command = command
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append(env, "HOME=/nonexistent")
	p.cmd.Dir = bin
	p.cmd.SysProcAttr = asOrdinary()
	// A pipe of our own: Wait would otherwise wait for grandchildren that hold it.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		t.Fatal(err)
	}
	go p.follow(r)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%q: %v\n%s", command, p.cmd.ProcessState, p.text())
		}
	})
	return p
}

func (p *program) follow(output *os.File) {
	defer output.Close()
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		p.mu.Unlock()
	}
	_ = p.cmd.Wait() // ProcessState has the result
	close(p.over)
}

// kill ends the process group.
func (p *program) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // an error: it has ended
	<-p.over
}

// output returns the lines so far.
func (p *program) output() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

func (p *program) text() string { return strings.Join(p.output(), "\n") }

// status waits for the end and returns the exit status; -1 means a signal.
func (p *program) status() int {
	p.t.Helper()
	select {
	case <-p.over:
	case <-time.After(patience):
		where := p.threads()
		p.kill()
		p.t.Fatalf("%q did not end within %v; its threads:\n%s", p.command, patience, where)
	}
	return p.cmd.ProcessState.ExitCode()
}

// succeeds waits for the end and checks that the exit status is 0.
func (p *program) succeeds() {
	p.t.Helper()
	if status := p.status(); status != 0 {
		p.t.Fatalf("%q: status %d", p.command, status)
	}
}

// threads says where the threads of a program are that hangs.
func (p *program) threads() string {
	var text strings.Builder
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.cmd.Process.Pid))
	for _, task := range tasks {
		for _, file := range []string{"comm", "wchan", "syscall"} {
			b, _ := os.ReadFile(filepath.Join(task, file)) // the thread may have ended
			fmt.Fprintf(&text, "%s ", strings.TrimSpace(string(b)))
		}
		text.WriteString("\n")
	}
	return text.String()
}

// listens waits until somebody listens at a TCP port, which the program should.
func (p *program) listens(port string) {
	p.t.Helper()
	p.await("listener at port "+port, func() bool { return listening(port) })
}

// await waits until done returns true. The test fails if the program ends before.
func (p *program) await(what string, done func() bool) {
	p.t.Helper()
	testkit.Until(p.t, what, func() bool {
		select {
		case <-p.over:
			if !done() {
				p.t.Fatalf("%q ended without %s", p.command, what)
			}
			return true
		default:
			return done()
		}
	}, p.threads)
}

// listening reports whether a socket listens at a TCP port.
func listening(port string) bool {
	var number int
	fmt.Sscan(port, &number)
	const state = "0A"
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // a system without IPv6 lacks the second
		for _, line := range strings.Split(string(text), "\n") {
			f := strings.Fields(line)
			if len(f) > 3 && f[3] == state && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", number)) {
				return true
			}
		}
	}
	return false
}

// ports counts the ports that freePort has tried.
var ports atomic.Uint32

// freePort returns a TCP port that nobody listens on, another one each time. The kernel gives
// outgoing connections ports from 32768 on.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := fmt.Sprint(22000 + (uint32(os.Getpid())+ports.Add(1))%10000)
		if l, err := net.Listen("tcp", ":"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port from 22000 to 31999")
	return ""
}
