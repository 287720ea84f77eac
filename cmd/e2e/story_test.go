//go:build linux && !rdma

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// storyRuns are the runs whose stories are in testdata/story, both ends in one file. peer
// names the other program whose format both ends use.
var storyRuns = []struct {
	name           string
	both           []string // flags of both ends
	client, server []string
}{
	{name: "send"},
	{name: "write-read"},
	{name: "write-imm"},
	{name: "exchange-write"},
	{name: "exchange-read"},
	{name: "leave-early", client: []string{"--job", "exchange-write", "--leave-early"}},
	{name: "atomic"},
	{name: "bulk", client: []string{"--job", "bulk", "--size", "8M", "--qps", "3"}},
	{name: "file", client: []string{"--job", "file", "--file", "FILE", "--name", "copy"}, server: []string{"--dir", "FOLDER"}},
	{name: "net-echo"},
	{name: "net-stream", client: []string{"--job", "net-stream", "--size", "8M"}},
	{name: "bench-send-lat"},
	{name: "bench-write-bw"},
	{name: "bench-read-bw"},
	{name: "bench-atomic-lat"},
	{name: "rc-example", both: []string{"--peer", "rc-example"}},
	{name: "rocev2-learn", both: []string{"--peer", "rocev2-learn"}},
	{name: "rc-pingpong", both: []string{"--peer", "pingpong"}},
	{name: "uc-pingpong", both: []string{"--peer", "pingpong", "--job", "uc-pingpong"}},
	{name: "ud-pingpong", both: []string{"--peer", "pingpong", "--job", "ud-pingpong"}},
	{name: "srq-pingpong", both: []string{"--peer", "pingpong", "--job", "srq-pingpong"}},
	{name: "perftest", both: []string{"--peer", "perftest", "--job", "bench-write-lat"}},
}

// TestStories compares the stories of each job, at both ends, with testdata/story. After a
// change: go test ./cmd/e2e -run TestStories -update, and review the difference.
func TestStories(t *testing.T) {
	noLeak(t)
	for _, run := range storyRuns {
		t.Run(run.name, func(t *testing.T) {
			text := writeFile(t, "text", 1000)
			flags := func(more []string) (all []string) {
				for _, flag := range slices.Concat(run.both, more) {
					switch flag {
					case "FILE":
						flag = text
					case "FOLDER":
						flag = t.TempDir()
					}
					all = append(all, flag)
				}
				return all
			}
			if len(run.both) == 0 && len(run.client) == 0 {
				run.client = []string{"--job", run.name}
			}
			server, client := runStory(t, flags(run.server), flags(run.client))
			got := "server:\n" + server + "\nclient:\n" + client
			got = strings.ReplaceAll(got, text, "FILE")
			checkWidth(t, got)
			path := filepath.Join("testdata", "story", run.name+".txt")
			want, err := os.ReadFile(path)
			if err != nil && !*update {
				t.Fatal(err)
			}
			if slices.Equal(normal(got), normal(string(want))) {
				return
			}
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("the story has changed (run with -update, and look at the difference); normalised, it was\n%s\nand is\n%s",
				strings.Join(normal(string(want)), "\n"), strings.Join(normal(got), "\n"))
		})
	}
}

// runStory runs a server for one client and the client, and returns their output.
func runStory(t *testing.T, serverFlags, clientFlags []string) (server, client string) {
	t.Helper()
	port := freePort(t)
	s := start(t, "rdma_server", slices.Concat([]string{"--once"}, serverFlags, []string{device, port})...)
	waitListening(t, port)
	c := start(t, "rdma_client", slices.Concat(clientFlags, []string{ipv4, device, port})...)
	c.succeeds()
	s.succeeds()
	printed := func(p *process) string { return withUsualPort(strings.Join(p.lines, "\n")+"\n", port) }
	return printed(s), printed(c)
}

// tableRow matches a line of perftest's table, which is not wrapped.
var tableRow = regexp.MustCompile(`^ #?(bytes|\d+) +(#iterations|\d+)`)

func checkWidth(t *testing.T, story string) {
	t.Helper()
	for line := range strings.Lines(story) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !tableRow.MatchString(line) {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestStoryOfManyClients checks that the story distinguishes the clients of one server,
// including rejected and killed clients.
func TestStoryOfManyClients(t *testing.T) {
	noLeak(t)
	port := freePort(t)
	s := start(t, "rdma_server", "--allow", "send,bulk", device, port)
	waitListening(t, port)
	rejected := start(t, "rdma_client", "--job", "atomic", ipv4, device, port)
	rejected.fails(1, `does not do the job "atomic"`)
	var clients sync.WaitGroup
	for range 4 {
		c := start(t, "rdma_client", "--quiet", ipv4, device, port)
		clients.Go(func() { c.wait() })
	}
	clients.Wait()
	s.await("end of the fourth client's story", func() bool {
		return strings.Count(strings.Join(s.lines, "\n"), "done        the job succeeded") == 4
	})
	s.signal(os.Interrupt)
	s.succeeds()
	story := strings.Join(s.lines, "\n") + "\n"
	checkWidth(t, story)
	checkWidth(t, strings.Join(rejected.lines, "\n"))
	for line := range strings.Lines(story) {
		if !regexp.MustCompile(`^(\[[1-5]\] .|open |listen |server )`).MatchString(line) {
			t.Errorf("no client's: %q", line)
		}
	}
	for _, want := range []string{
		`[1] failed      this server does not do the job "atomic"`, "[1] TCP         the failure is sent to the peer",
		"[2] RESET→INIT  mask=0x39", "[5] RTR→RTS     mask=0x12e01", "[3]   local     0x", `[4] message     from the client: "hello from the client"`,
		"server      stopped between clients (done=4, failed=1)",
	} {
		if !strings.Contains(story, want) {
			t.Errorf("the story lacks %q:\n%s", want, story)
		}
	}
}

// TestStoryOfFailure checks that the story of a failed run is complete.
func TestStoryOfFailure(t *testing.T) {
	noLeak(t)
	s := serve(t, "--once")
	c := start(t, "rdma_client", "--job", "file", "--file", writeFile(t, "file", 10), ipv4, device, s.port)
	c.fails(1, "accepts no files")
	s.wait()
	story := strings.Join(c.lines, "\n") + "\n"
	checkWidth(t, story)
	for _, want := range []string{"open        device " + device, "TCP         the peer says that it failed, at the step \"hello\"", "free        "} {
		if !strings.Contains(story, want) {
			t.Errorf("the story lacks %q:\n%s", want, story)
		}
	}
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestStoryColours checks that the story has colours only on a terminal without NO_COLOR, and
// that the text is the same.
func TestStoryColours(t *testing.T) {
	noLeak(t)
	s := serve(t)
	run := func(terminal bool, environment ...string) string {
		command := append(environment, filepath.Join(binaries, "rdma_client"), ipv4, device, s.port)
		shown, elsewhere := onTerminal(t, terminal, false, "env", command...)
		return strings.ReplaceAll(shown+elsewhere, "\r\n", "\n")
	}
	plain := run(false, "NO_COLOR=", "TERM=xterm")
	coloured := run(true, "NO_COLOR=", "TERM=xterm")
	if colours.MatchString(plain) || !strings.Contains(coloured, "\x1b[1;36mRESET→INIT\x1b[0m  mask=0x39") {
		t.Errorf("without a terminal %q\non one %q", plain, coloured)
	}
	if got := normal(colours.ReplaceAllString(coloured, "")); !slices.Equal(got, normal(plain)) {
		t.Errorf("on a terminal\n%s\nwithout\n%s", strings.Join(got, "\n"), strings.Join(normal(plain), "\n"))
	}
	for _, environment := range [][]string{{"NO_COLOR=1", "TERM=xterm"}, {"NO_COLOR=", "TERM=dumb"}} {
		if got := run(true, environment...); strings.Contains(got, "\x1b") || !slices.Equal(normal(got), normal(plain)) {
			t.Errorf("with %v: %q", environment, got)
		}
	}
	s.stops()
}

// TestLadderColours is TestStoryColours for the ladder. The order of the two ends may differ.
func TestLadderColours(t *testing.T) {
	noLeak(t)
	s := serve(t)
	ladder := func(terminal bool) []string {
		shown, elsewhere := onTerminal(t, terminal, false, "env", "NO_COLOR=", "TERM=xterm", filepath.Join(binaries, "rdma_client"), "--ladder", ipv4, device, s.port)
		return slices.Sorted(strings.Lines(strings.ReplaceAll(shown+elsewhere, "\r\n", "\n")))
	}
	plain, coloured := strings.Join(ladder(false), ""), strings.Join(ladder(true), "")
	if colours.MatchString(plain) || !strings.Contains(coloured, "\x1b[1;36mRESET→INIT\x1b[0m│") {
		t.Errorf("without a terminal\n%s\non one %q", plain, coloured)
	}
	lines := slices.Sorted(strings.Lines(colours.ReplaceAllString(coloured, "")))
	if got := strings.Join(lines, ""); got != plain {
		t.Errorf("on a terminal\n%s\nwithout\n%s", got, plain)
	}
	s.stops()
}

// TestTraceFits checks that -v breaks its lines at the width of a terminal, and only there.
func TestTraceFits(t *testing.T) {
	noLeak(t)
	s := serve(t)
	for _, terminal := range []bool{true, false} {
		shown, elsewhere := onTerminal(t, terminal, false, filepath.Join(binaries, "rdma_client"), "-v", ipv4, device, s.port)
		widest := 0
		for line := range strings.Lines(strings.ReplaceAll(shown+elsewhere, "\r\n", "\n")) {
			widest = max(widest, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
		}
		if fits := widest <= 100; fits != terminal {
			t.Errorf("on a terminal of 100 columns: %t; the widest line has %d", terminal, widest)
		}
	}
	s.stops()
}

// TestDemo checks that the demo draws both ends in 80 columns, and says what comes next.
func TestDemo(t *testing.T) {
	noLeak(t)
	cmd := exec.Command("cmd/e2e/demo.sh", device, ipv4)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "PORT="+freePort(t), "BIN="+binaries)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := string(out)
	checkWidth(t, text)
	for _, want := range []string{"client on " + device + " ", " server on " + device + "\n", "\nRESET→INIT│ ", " │RESET→INIT\n", "══ SEND, 15 bytes ═"} {
		if !strings.Contains(text, want) {
			t.Errorf("the demo lacks %q:\n%s", want, text)
		}
	}
	if !strings.HasSuffix(text, "\nnow: make lab-web\n") {
		t.Errorf("the demo ends with\n%s", text)
	}
}
