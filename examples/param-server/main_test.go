package main

import (
	"bufio"
	"bytes"
	"math"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// address is the server's: an address of this host.
const address = "127.0.0.1"

// manyRounds returns enough rounds to interrupt a run. An emulated machine with rxe0 needs fewer.
func manyRounds() string {
	if softtest.Soft {
		return "3000"
	}
	return "300"
}

// TestMain makes the test binary the program itself, for tests that need processes.
func TestMain(m *testing.M) {
	if os.Getenv("PARAM_SERVER_IS_MAIN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// part is a running server or worker.
type part struct {
	t       *testing.T
	cmd     *exec.Cmd
	lines   chan string // of its output; closed at its end
	earlier []string
	stderr  bytes.Buffer
}

// start runs a part on the device under test.
func start(t *testing.T, args ...string) *part {
	t.Helper()
	args = append([]string{args[0], "--device", softtest.Name(t)}, args[1:]...)
	p := &part{t: t, cmd: exec.Command(os.Args[0], args...), lines: make(chan string, 100_000)}
	p.cmd.Env = append(os.Environ(), "PARAM_SERVER_IS_MAIN=1")
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			p.lines <- s.Text()
		}
		p.cmd.Wait()
		close(p.lines)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-over
		if t.Failed() {
			t.Logf("%q: %v\n%s\n%s", args, p.cmd.ProcessState, strings.Join(p.earlier, "\n"), &p.stderr)
		}
	})
	return p
}

// says waits for a line that matches, and returns its first group.
func (p *part) says(pattern string) string {
	p.t.Helper()
	wanted := regexp.MustCompile(pattern)
	timer := time.NewTimer(testkit.Limit)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("it ended without %q: %v: %s", pattern, p.cmd.ProcessState, &p.stderr)
			}
			p.earlier = append(p.earlier, line)
			if m := wanted.FindStringSubmatch(line); m != nil {
				return m[len(m)-1]
			}
		case <-timer.C:
			p.t.Fatalf("it does not say %q", pattern)
		}
	}
}

// ends waits until the part ends with a status, and with an error that contains want.
func (p *part) ends(status int, want string) {
	p.t.Helper()
	timer := time.NewTimer(testkit.Limit)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if ok {
				p.earlier = append(p.earlier, line)
				continue
			}
			if got := p.cmd.ProcessState.ExitCode(); got != status || !strings.Contains(p.stderr.String(), want) || (status == 0 && p.stderr.Len() > 0) {
				p.t.Errorf("status %d, want %d; stderr %q, want %q", got, status, &p.stderr, want)
			}
			return
		case <-timer.C:
			p.t.Fatal("it does not end")
		}
	}
}

// together starts a server and three workers, each as a process.
func together(t *testing.T, flags ...string) (server *part, workers []*part) {
	t.Helper()
	server = start(t, append([]string{"server", "--port", "0"}, flags...)...)
	port := server.says(`listening on .*:(\d+) for 3 workers`)
	for range 3 {
		// One after the other, so that their numbers are known.
		workers = append(workers, start(t, "worker", "--port", port, address))
		server.says("has joined")
	}
	return server, workers
}

func TestDemo(t *testing.T) {
	p := start(t, "demo")
	p.says(`^round  40  loss  0\.0000\d\d`)
	p.says("^converged: every weight is within 0.01 of the known ones")
	p.ends(0, "")
}

func TestProcesses(t *testing.T) {
	server, workers := together(t)
	server.says("^converged")
	server.ends(0, "")
	for _, w := range workers {
		w.says("is done, after 40 rounds")
		w.ends(0, "")
	}
}

// A worker dies or stops answering. The server names it and finds the weights with the others.
func TestAWorkerIsLost(t *testing.T) {
	softtest.Long(t)
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "interrupted": syscall.SIGINT, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			timeout := testkit.Limit
			if signal == syscall.SIGSTOP { // only the timeout ends it
				timeout = 5 * time.Second
			}
			server, workers := together(t, "--rounds", manyRounds(), "--timeout", timeout.String())
			server.says(`^round  10 .* workers 3`)
			if err := workers[1].cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			server.says(`^worker 2 \(.*\) is gone, the others go on: .`)
			server.says(`^round .* workers 2`)
			for _, i := range []int{0, 2} {
				workers[i].says("is done, after " + manyRounds() + " rounds")
				workers[i].ends(0, "")
			}
			server.says("^converged")
			server.ends(0, "")
		})
	}
}

func TestAllWorkersAreLost(t *testing.T) {
	server, workers := together(t, "--rounds", "100000")
	server.says(`^round  10 `)
	for _, w := range workers {
		w.cmd.Process.Kill()
	}
	server.ends(1, "no worker is left in round ")
}

func TestTheServerIsLost(t *testing.T) {
	server, workers := together(t, "--rounds", "100000")
	server.says(`^round  10 `)
	server.cmd.Process.Kill()
	for _, w := range workers {
		w.ends(1, "param-server: ")
	}
}

// A client that sends nothing, or something else, does not hold up the others.
func TestAStranger(t *testing.T) {
	softtest.Long(t)
	server := start(t, "server", "--port", "0", "--workers", "1", "--timeout", "3s")
	port := server.says(`listening on .*:(\d+)`)
	for _, says := range []string{"GET / HTTP/1.1\r\n\r\n", ""} {
		stranger, err := (&net.Dialer{}).DialContext(testkit.Context(t), "tcp", net.JoinHostPort(address, port))
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		if _, err := stranger.Write([]byte(says)); err != nil {
			t.Fatal(err)
		}
		server.says("does not become a worker: ")
	}
	start(t, "worker", "--port", port, address).ends(0, "")
	server.ends(0, "")
}

// Learning fails with too few rounds or too high a rate.
func TestNotConverged(t *testing.T) {
	start(t, "demo", "--rounds", "3").ends(1, "not converged: after 3 rounds a weight is off by ")
	start(t, "demo", "--rate", "5", "--rounds", "10000").ends(1, "gone beyond all bounds in round ")
}

func TestCommandLine(t *testing.T) {
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--help"}, 0, ""},
		{[]string{"demo", "--help"}, 0, ""},
		{[]string{"--workers=3"}, 2, "which part? try: param-server demo"},
		{[]string{"juggle"}, 2, `there is no "juggle"; try: demo, server or worker`},
		{[]string{"worker"}, 2, "takes 1 addresses after the flags, and there are 0"},
		{[]string{"demo", "x"}, 2, "takes 0 addresses"},
		{[]string{"demo", "--workers", "0"}, 2, "must be above 0"},
		{[]string{"demo", "--rounds", "many"}, 2, "invalid value"},
		{[]string{"worker", "--port", "1", "127.0.0.1"}, 1, "connection refused"},
		{[]string{"demo", "--device", "nosuch0"}, 1, "no device of that name"},
	} {
		start(t, test.args...).ends(test.status, test.want)
	}
}

func TestOutputThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	help := exec.Command(os.Args[0], "--help")
	help.Env = append(os.Environ(), "PARAM_SERVER_IS_MAIN=1")
	help.Stdout = full
	if err := help.Run(); help.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, want status 1", err)
	}
}

// The gradient equals the numerical derivative of the loss.
func TestGradient(t *testing.T) {
	const seed, h = 7, 1e-6
	at := vector{0.5, -1, 2, 0, 0.25, 1, -2, 3, -0.75}
	lossAt := func(w vector) float64 {
		_, loss := newData(seed, 1).gradient(&w) // made again, for the same batch
		return loss
	}
	g, _ := newData(seed, 1).gradient(&at)
	for i := range at {
		up, down := at, at
		up[i] += h
		down[i] -= h
		if want := (lossAt(up) - lossAt(down)) / (2 * h); math.Abs(g[i]-want) > 1e-4 {
			t.Errorf("by weight %d it is %v, want %v", i, g[i], want)
		}
	}
	known := knownWeights(seed)
	if _, loss := newData(seed, 1).gradient(&known); loss > noise*noise {
		t.Errorf("the loss of the known weights is %v", loss)
	}
}

// README.md shows the real output of its command.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```console\n\\$ go run ./examples/param-server demo\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("there is no run of the demo")
	}
	p := start(t, "demo")
	p.says("^converged")
	p.ends(0, "")
	volatile := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	want := volatile.ReplaceAllString(strings.TrimSpace(string(block[1])), "ADDRESS")
	if got := volatile.ReplaceAllString(strings.Join(p.earlier, "\n"), "ADDRESS"); got != want {
		t.Errorf("README.md has\n%s\nand the demo says\n%s", want, got)
	}
}
