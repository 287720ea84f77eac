//go:build lab && !rdma

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// lab runs test/vm/lab.sh, which runs a command in each of two machines. It returns the
// output, the exit status and the folder with the capture.
func lab(t *testing.T, env ...string) (output string, status int, dir string) {
	t.Helper()
	dir = t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "test", "vm", "lab.sh"))
	cmd.Env = append(os.Environ(), append(env, "VM_OUT="+dir, "VM_TIMEOUT=1200")...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // the script stops its machines
	cmd.WaitDelay = testkit.Limit
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", out)
		}
	})
	return string(out), cmd.ProcessState.ExitCode(), dir
}

func expect(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(text) {
			t.Errorf("no match for %q", p)
		}
	}
}

// TestLab runs the job between two kernels, each with its rxe0. The capture of the wire must
// have the TCP exchange, the messages and their acknowledgements, with correct ICRCs.
func TestLab(t *testing.T) {
	output, status, dir := lab(t, "LAB_JOB=send", "LAB_SERVER_ARGS=-v", `LAB_CLIENT_ARGS=-v --text "hello, other machine"`)
	if status != 0 {
		t.Errorf("status %d", status)
	}
	const reply = "the server received 20 bytes: hello, other machine"
	expect(t, output,
		`^on the server: lab: \$ \./rdma_server --once -v rxe0 18515 1$`,
		`^on the server: .*RTR→RTS`, `^on the server: .*text=hello, other machine bytes=20`,
		`^on the client: lab: \$ \./rdma_client --job send -v --text "hello, other machine" 10\.0\.0\.1 rxe0 18515 1$`, `^on the client: .*RTR→RTS`, `^on the client: .*reply from the server  text=`+reply,
		`^lab: exit status: server 0, client 0$`)

	pcap := filepath.Join(dir, "wire.pcap")
	sends := map[string]int{} // payload bytes by sender
	acks := map[string]bool{}
	for _, f := range readCapture(t, pcap) {
		from := map[byte]string{1: "server", 2: "client"}[f[15]]
		switch f.opcode() {
		case sendOnly:
			sends[from] = len(f) - ipHeader - udpHeader - bthHeader - icrcSize
		case ack:
			acks[from] = true
		default:
			t.Errorf("a packet from the %s that is not part of the job: %v", from, f)
		}
	}
	// Payloads come in multiples of four bytes.
	if sends["client"] != 20 || sends["server"] != (len(reply)+3)/4*4 || !acks["client"] || !acks["server"] {
		t.Errorf("SENDs, with their bytes: %v; acknowledgements: %v", sends, acks)
	}

	shown := runScript(t, nil, "capture.sh", "--read", pcap, "--port", "18515")
	shown.ends(0)
	text := shown.stdout.String()
	const toServer, toClient = ` 10\.0\.0\.2 +10\.0\.0\.1 +`, ` 10\.0\.0\.1 +10\.0\.0\.2 +`
	expect(t, text,
		toServer+"TCP SYN", toServer+"TCP hello", toClient+"TCP hello", toServer+"TCP endpoints", toClient+"TCP endpoints",
		toServer+"TCP barrier", toClient+"TCP barrier", toServer+"TCP FIN",
		toServer+"RC SEND Only +20 .* ACK asked for", toClient+`RC Acknowledge +0 .* AETH syndrome 0x1f \(ACK\) MSN 1`,
		toClient+"RC SEND Only +50 ", toServer+`RC Acknowledge +0 .* MSN 1`)
	if strings.Contains(text, "MALFORMED") {
		t.Errorf("tshark reports errors:\n%s", text)
	}
	malformed, err := exec.Command("tshark", "-r", pcap, "-Y", "_ws.malformed").Output()
	if err != nil || len(malformed) > 0 {
		t.Errorf("tshark finds malformed packets: %v: %s", err, malformed)
	}
}

// TestLabFails checks that failures are reported with both statuses, and that no machine
// keeps running.
func TestLabFails(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		want []string
	}{
		"a command": {[]string{"LAB_SERVER=exit 3", "LAB_CLIENT=true"},
			[]string{"^on the client: lab: not started: the server ended before it listened", "^lab: exit status: server 3, client 1$"}},
		"a machine": {[]string{"VM_MEM=60M"},
			[]string{"^on the server: vm: the machine failed before CMD: ", "the server's machine failed: stopping the client's|client none \\(not booted\\)"}},
		"server without client": {[]string{"LAB_SERVER=true"}, []string{"SERVER and CLIENT need each other; try: "}},
	} {
		t.Run(name, func(t *testing.T) {
			output, status, dir := lab(t, c.env...)
			if status == 0 {
				t.Error("status 0")
			}
			expect(t, output, c.want...)
			if left := processesWith(t, "path="+dir); len(left) > 0 {
				t.Errorf("a machine is left: %q", left)
			}
		})
	}
}

// processesWith returns the command lines of this host's processes that contain text.
func processesWith(t *testing.T, text string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Fatalf("no processes in /proc: %v", err)
	}
	for _, file := range files {
		// A process that has ended since Glob has no command line.
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), text) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
