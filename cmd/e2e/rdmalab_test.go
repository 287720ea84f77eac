package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// rdmaLab runs rdma_lab to its end.
func rdmaLab(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "rdma_lab"), args...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), complaints.String()
}

// TestRdmaLab runs each subcommand as text and as JSON.
func TestRdmaLab(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	for _, c := range []struct{ args, text, field string }{
		{"devices", `(?m)^` + device + ` +(softroce|libibverbs) +1 +ACTIVE +ETHERNET `, "devices"},
		{"gids " + device + " " + ipv4, `(?m)^>  1 +` + gidIndex4 + ` +RoCE v2 .*\n(.*\n)*> index ` + gidIndex4 + ` for ` + regexp.QuoteMeta(ipv4) + `: RoCE v2`, "gids"},
		{"states", `(?m)^INIT→RTR +AV, PATH_MTU,`, "moves"},
		{"states RESET", `(?m)^sends     may not be posted\n[^\0]*^RESET→INIT +ACCESS_FLAGS`, "moves"},
		{"states --type UD INIT RTR", `(?m)^REQUIRED \(mask 0x1\)\n  STATE +0x1 `, "attributes"},
		{"explain 12", `(?m)^errno 12, ENOMEM: [^\0]*^status 12, IBV_WC_RETRY_EXC_ERR: `, "entries"},
		{"explain a capture shows nothing", `bypasses the interface`, "entries"},
	} {
		status, out, complaints := rdmaLab(t, strings.Fields(c.args)...)
		if status != 0 || complaints != "" || !regexp.MustCompile(c.text).MatchString(out) {
			t.Errorf("%s: status %d, %s\nwant %s, got\n%s", c.args, status, complaints, c.text, out)
		}
		var r map[string]any
		status, out, complaints = rdmaLab(t, append(strings.Fields(c.args), "--json")...)
		if err := json.Unmarshal([]byte(out), &r); status != 0 || complaints != "" || err != nil {
			t.Fatalf("%s --json: status %d, %v, %s", c.args, status, err, complaints)
		}
		if list, _ := r[c.field].([]any); len(list) == 0 {
			t.Errorf("%s --json has no %q: %v", c.args, c.field, r)
		}
	}
}

// TestRdmaLabRefuses checks the exit statuses and the errors of rdma_lab: one line with a remedy,
// and the usage after a wrong command line.
func TestRdmaLabRefuses(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"", 2, "no command"},
		{"state", 2, `there is no command "state"; try: states`},
		{"explain", 2, "takes at least 1 argument, and the command line has 0; try: rdma_lab explain 12"},
		{"devices extra", 2, "takes no arguments"},
		{"explain ENOMM", 2, "try: ENOMEM"},
		{"explain -22", 2, "explain -- -22"},
		{"states INIT RTR RTS", 2, "at most 2 arguments"},
		{"states INIT RTX", 2, "try: RTR"},
		{"states INIT RTR --type XRC", 2, "try: --type RC, UC or UD"},
		{"states INIT RTS", 1, "from INIT it can go to RESET, INIT, RTR, ERR"},
		{"gids " + device + " here", 2, "is not an IP address"},
		{"gids nodevice0", 1, "no device of that name"},
		{"devices rxe0", 2, "rxe0"},
		{"tls renew", 2, "takes at least 1 argument, and the command line has 0; try: rdma_lab tls renew lab"},
		{"tls renew /nosuch", 1, "/nosuch/ca/ca.crt: no such file or directory; try: a directory that rdma_lab tls has made"},
	} {
		status, out, complaints := rdmaLab(t, strings.Fields(c.args)...)
		if status != c.status || out != "" || !strings.HasPrefix(complaints, "rdma_lab") || !strings.Contains(complaints, c.want) ||
			strings.Contains(complaints, "Usage: ") != (c.status == 2) {
			t.Errorf("%q: status %d, stdout %q, stderr %q; want status %d and %q", c.args, status, out, complaints, c.status, c.want)
		}
	}
	status, out, _ := rdmaLab(t, "states", "INIT", "RTS", "--json")
	var r map[string]any
	if err := json.Unmarshal([]byte(out), &r); status != 1 || err != nil || !strings.Contains(r["error"].(string), "INIT→RTR→RTS") {
		t.Errorf("with --json: status %d, %v, %s", status, err, out)
	}
}

// TestRdmaLabCompletes asks for completions as a shell does.
func TestRdmaLabCompletes(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	for args, want := range map[string]string{
		"":               "explain\t",
		"gids ":          device + "\n",
		"states INIT ":   "RTR\n",
		"states --type ": "UD\n",
		"explain RETRY":  "RETRY_EXC_ERR\n",
	} {
		status, out, _ := rdmaLab(t, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("%q: status %d, want %q, got\n%s", args, status, want, out)
		}
	}
}
