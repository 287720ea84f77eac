//go:build rdma && rxe

package doctor_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// limit is the limit of every command. It is long, because the machine is emulated and
// shares its host with other tests.
const limit = 4 * time.Minute

// finding is what the doctor printed about one check.
type finding struct{ status, check, found, try string }

var line = regexp.MustCompile(`^(ok|warn|fail|skip) +([a-z]+) +(.+)$`)

// parse reads the doctor's output.
func parse(t *testing.T, out string) (list []finding) {
	t.Helper()
	for text := range strings.Lines(out) {
		text = strings.TrimSpace(text)
		if try, is := strings.CutPrefix(text, "try: "); is && len(list) > 0 {
			list[len(list)-1].try = try
		} else if m := line.FindStringSubmatch(text); m != nil {
			list = append(list, finding{status: m[1], check: m[2], found: m[3]})
		}
	}
	if len(list) < 5 {
		t.Fatalf("not the output of a doctor:\n%s", out)
	}
	return list
}

// sh runs a command of bash and returns its output. A remedy may say sudo, which the
// machine does not have.
func sh(t *testing.T, command string) (out string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "sudo() { \"$@\"; }\n"+command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGQUIT) } // prints where a Go program hangs
	cmd.WaitDelay = 10 * time.Second
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("%s: %v: %s", command, err, text)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// must runs commands that must succeed.
func must(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if out, status := sh(t, c); status != 0 {
			t.Fatalf("%s: status %d: %s", c, status, out)
		}
	}
}

const (
	doctor = "rdma_lab doctor --device rxe0 --timeout 60s 10.99.0.2"

	addresses = "ip address replace 10.99.0.1/24 dev veth0; ip address replace fd99::1/64 dev veth0 nodad"
)

// TestDoctorMends breaks rxe0. Each time the doctor names the fault and prints a command,
// which the test runs; then the doctor finds nothing wrong. A fault of the firewall is mended
// by hand, because the command only lists the rules.
func TestDoctorMends(t *testing.T) {
	install(t)
	serve(t)
	t.Cleanup(func() { sh(t, addresses) })
	allOK(t, doctor)
	for _, c := range []struct {
		name     string
		breaking []string // commands
		doctor   string   // the command that finds the fault; "" is doctor
		check    string   // the check that fails
		found    string   // part of the finding
		restore  string   // a command, for what the remedy leaves
		lists    string   // the remedy lists rules, with this one; restore mends
		nowInTry bool     // the remedy itself runs the doctor where all is well
	}{
		{
			name:     "no module",
			breaking: []string{"rmmod rdma_rxe"},
			check:    "modules", found: "rdma_rxe is not loaded",
		},
		{
			name:     "no device",
			breaking: []string{"rdma link delete rxe0"},
			check:    "devices", found: "no RDMA device",
		},
		{
			name:     "link down",
			breaking: []string{"ip link set veth0 down"},
			check:    "port", found: "veth0 is down",
			restore: addresses,
		},
		{
			name:     "no address",
			breaking: []string{"ip address flush dev veth0 scope global"},
			check:    "gids", found: "no RoCE v2 GID",
			restore: addresses,
		},
		{
			name:     "no IPv4 address",
			breaking: []string{"ip address delete 10.99.0.1/24 dev veth0"},
			check:    "gids", found: "veth0 needs an IPv4 address",
			restore: addresses,
		},
		{
			name: "firewall drops what arrives",
			breaking: []string{
				"nft add table inet lab",
				"nft 'add chain inet lab input { type filter hook input priority 0; policy accept; }'",
				"nft add rule inet lab input udp dport 4791 drop",
			},
			check: "firewall", found: "not let UDP port 4791 in",
			lists:   "udp dport 4791 drop",
			restore: "nft delete table inet lab",
		},
		{
			name: "firewall drops what it does not know, except on lo",
			breaking: []string{
				"nft add table inet lab",
				"nft 'add chain inet lab input { type filter hook input priority 0; policy drop; }'",
				"nft add rule inet lab input iifname lo accept",
				"nft add rule inet lab input ct state established,related accept",
			},
			check: "job", found: "TCP reaches 10.99.0.2:18515, and RDMA does not",
			lists:   "policy drop",
			restore: "nft delete table inet lab",
		},
		{
			name: "firewall drops what leaves",
			breaking: []string{
				"nft add table ip lab",
				"nft 'add chain ip lab leave { type filter hook output priority 0; policy accept; }'",
				"nft add rule ip lab leave udp dport 4000-5000 reject",
			},
			check: "firewall", found: "not let UDP port 4791 out",
			lists:   "udp dport 4000-5000 reject",
			restore: "nft delete table ip lab",
		},
		{
			name:   "another network namespace",
			doctor: "ip netns exec peer " + doctor,
			check:  "namespace", found: "veth0, the interface of rxe0, is in another network namespace",
			nowInTry: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.restore != "" {
				t.Cleanup(func() { sh(t, c.restore) })
			}
			must(t, c.breaking...)
			if c.doctor == "" {
				c.doctor = doctor
			}
			out, status := sh(t, c.doctor)
			remedy := remedyOf(t, out, status, c.check, c.found)
			if c.nowInTry {
				allOK(t, remedy)
				return
			}
			if c.lists != "" {
				if out, _ := sh(t, remedy); !strings.Contains(out, c.lists) {
					t.Errorf("%s does not list %q:\n%s", remedy, c.lists, out)
				}
				remedy = c.restore
			}
			must(t, remedy)
			allOK(t, c.doctor)
		})
	}
}

// TestDoctorMendsMemlock takes the locked memory from the shell of an ordinary user. The
// remedy is for root, and changes that shell.
func TestDoctorMendsMemlock(t *testing.T) {
	install(t)
	serve(t)
	allOK(t, doctor)
	shell := startShell(t, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash")
	shell.run(t, "ulimit -l 0")
	out, status := shell.run(t, doctor)
	must(t, remedyOf(t, out, status, "memlock", "cannot register memory"))
	out, status = shell.run(t, doctor)
	expectOK(t, out, status)
}

// TestDoctorLooksFor runs the doctor for hosts that cannot be reached.
func TestDoctorLooksFor(t *testing.T) {
	install(t)
	for host, c := range map[string]struct{ status, check string }{
		"10.99.0.2":  {"warn", "server"}, // no server
		"10.99.0.77": {"fail", "server"}, // no host
		"10.77.0.1":  {"fail", "route"},
	} {
		out, _ := sh(t, "rdma_lab doctor --device rxe0 --timeout 60s "+host)
		list := parse(t, out)
		i := slices.IndexFunc(list, func(f finding) bool { return f.status != "ok" })
		if i < 0 || list[i].status != c.status || list[i].check != c.check || list[i].try == "" {
			t.Errorf("%s: want %v:\n%s", host, c, out)
		}
	}
}

// remedyOf returns the command that the doctor printed for the check, which must be the
// first that failed.
func remedyOf(t *testing.T, out string, status int, check, found string) string {
	t.Helper()
	t.Logf("broken:\n%s", out)
	list := parse(t, out)
	i := slices.IndexFunc(list, func(f finding) bool { return f.status != "ok" })
	if status != 1 || i < 0 || list[i].status != "fail" || list[i].check != check || !strings.Contains(list[i].found, found) {
		t.Fatalf("status %d, want 1; the first fault must be of the check %s: %q:\n%s", status, check, found, out)
	}
	if list[i].try == "" {
		t.Fatalf("no remedy:\n%s", out)
	}
	return list[i].try
}

func allOK(t *testing.T, command string) {
	t.Helper()
	out, status := sh(t, command)
	expectOK(t, out, status)
}

func expectOK(t *testing.T, out string, status int) {
	t.Helper()
	t.Logf("well:\n%s", out)
	for _, f := range parse(t, out) {
		if f.status != "ok" {
			t.Errorf("%s: %s", f.check, f.found)
		}
	}
	if status != 0 || t.Failed() {
		t.Fatalf("status %d, want 0 and all ok:\n%s", status, out)
	}
}

// install puts the commands in the PATH of every user.
func install(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "doctor")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rdma_lab", "rdma_server"} {
		from := filepath.Join("..", "..", "..", "..", name)
		if bin := os.Getenv("RAWVERBS_BIN"); bin != "" {
			from = filepath.Join(bin, name)
		}
		binary, err := os.ReadFile(from)
		if err != nil {
			t.Fatalf("%v; make all builds it", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), binary, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// serve runs an rdma_server on a soft device in the network namespace peer, until the test
// ends.
func serve(t *testing.T) {
	t.Helper()
	cmd := exec.Command("ip", "netns", "exec", "peer", "rdma_server", "--json", "soft:veth1")
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	listens := make(chan bool, 1)
	go func() {
		defer close(listens)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			if strings.Contains(s.Text(), "listening on") {
				listens <- true
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if !testkit.Receive(t, listens, "rdma_server that listens") {
		t.Fatal("rdma_server ended before it listened")
	}
}

// shell is a running bash.
type shell struct {
	in  io.Writer
	out *bufio.Reader
}

func startShell(t *testing.T, command ...string) *shell {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &shell{in, bufio.NewReader(out)}
}

// run runs a command in the shell.
func (s *shell) run(t *testing.T, command string) (out string, status int) {
	t.Helper()
	if _, err := fmt.Fprintf(s.in, "%s\necho status=$?\n", command); err != nil {
		t.Fatal(err)
	}
	for {
		text, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		if _, err := fmt.Sscanf(text, "status=%d\n", &status); err == nil {
			return out, status
		}
		out += text
	}
}
