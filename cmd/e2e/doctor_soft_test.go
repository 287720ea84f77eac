//go:build !rdma

package e2e

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// doctor runs the doctor and returns the status of each check of this machine.
func doctor(t *testing.T, status int, args ...string) (checks map[string]record) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "rdma_lab"), append([]string{"doctor", "--json", "--timeout", "5m"}, args...)...)
	out, err := cmd.Output()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		t.Fatalf("%v: %v, want status %d: %s", cmd, err, status, out)
	}
	checks = map[string]record{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var r record
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		checks[r.str("check")] = r // the event run.failed has no check
		if s := r.str("status"); (s == "warn" || s == "fail") && r.str("try") == "" {
			t.Errorf("no remedy: %v", r)
		}
	}
	return checks
}

// expectCheck compares the result of one check.
func expectCheck(t *testing.T, checks map[string]record, name, status, found string) {
	t.Helper()
	if r := checks[name]; r.str("status") != status || !strings.Contains(r.str("found"), found) {
		t.Errorf("check %s: %v, want %s: %q", name, r, status, found)
	}
}

// TestDoctorOnSoft runs the doctor on the software device. Where the machine has no RDMA device, the
// doctor must say so.
func TestDoctorOnSoft(t *testing.T) {
	noLeak(t)
	if names, _ := os.ReadDir("/sys/class/infiniband"); len(names) == 0 {
		checks := doctor(t, 0)
		first := "modules"
		if checks[first].str("status") == "ok" {
			first = "devices" // the module is loaded
		}
		expectCheck(t, checks, first, "skip", "soft0 needs none")
		expectCheck(t, checks, "verdict", "ok", "you can run everything on soft0")
		expectCheck(t, checks, "soft", "ok", "soft0 works")
	}
	missing := doctor(t, 1, "--device", "nosuch0")
	if missing["modules"].str("status") != "fail" && missing["devices"].str("status") != "fail" {
		t.Errorf("no check failed for a device that does not exist: %v", missing)
	}
	checks := doctor(t, 0, "--device", "soft0")
	expectCheck(t, checks, "devices", "ok", "soft0")
	expectCheck(t, checks, "soft", "ok", "soft0 works")
}

func TestDoctorWithServer(t *testing.T) {
	noLeak(t)
	s := serve(t)
	checks := doctor(t, 0, "--device", "soft0", s.address())
	expectCheck(t, checks, "route", "ok", "lo")
	expectCheck(t, checks, "server", "ok", "answers")
	expectCheck(t, checks, "job", "ok", "small messages and large ones")
	s.stillServes(t)
	s.stops()
}

func TestDoctorWithoutServer(t *testing.T) {
	noLeak(t)
	port := freePort(t)
	checks := doctor(t, 0, "--device", "soft0", "127.0.0.1:"+port)
	expectCheck(t, checks, "server", "warn", "nothing listens on its TCP port "+port)
	expectCheck(t, checks, "job", "skip", "")
}

func TestDoctorWithHTTPServer(t *testing.T) {
	noLeak(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := http.Server{Handler: http.NotFoundHandler()}
	over := make(chan struct{})
	go func() {
		defer close(over)
		web.Serve(l)
	}()
	t.Cleanup(func() {
		web.Close()
		<-over
	})
	checks := doctor(t, 1, "--device", "soft0", l.Addr().String())
	expectCheck(t, checks, "server", "ok", "")
	expectCheck(t, checks, "job", "fail", "is not an rdma_server")
}

func TestDoctorWithNoSuchHost(t *testing.T) {
	noLeak(t)
	expectCheck(t, doctor(t, 1, "--device", "soft0", "no host"), "route", "fail", "no host")
}

func TestDoctorCommandLine(t *testing.T) {
	noLeak(t)
	for args, want := range map[string]string{
		"host:0 ":             "port from 1 to 65535",
		":18515 ":             "port from 1 to 65535",
		"a:b:c ":              "an IPv6 address",
		"--timeout 0s ":       "leaves no time",
		"127.0.0.1 127.0.0.2": "at most 1",
	} {
		p := start(t, "rdma_lab", append([]string{"doctor"}, strings.Fields(args)...)...)
		p.fails(2, want)
	}
	p := start(t, "rdma_lab", "doctor", "--device", "soft0")
	p.succeeds()
	if text := strings.Join(p.lines, "\n"); !strings.Contains(text, "ok    soft       soft0 works") {
		t.Error(text)
	}
}
