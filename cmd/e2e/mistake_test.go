//go:build !rdma

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// mistake runs rdma_lab mistake with an input.
func mistake(t *testing.T, input string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "rdma_lab"), append([]string{"mistake"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// has reports a fault for each text that output does not have, in this order.
func has(t *testing.T, output string, texts ...string) {
	t.Helper()
	rest := output
	for _, text := range texts {
		_, after, ok := strings.Cut(rest, text)
		if !ok {
			t.Errorf("no %q after the texts before it, in\n%s", text, output)
			return
		}
		rest = after
	}
}

func TestMistakeRuns(t *testing.T) {
	t.Parallel()
	out, errs, status := mistake(t, "", "bad-rkey")
	if status != 0 || errs != "" {
		t.Errorf("status %d, %s", status, errs)
	}
	has(t, out, "bad-rkey on soft0", "Setting", "The calls", "ibv_post_send", "IBV_WC_REM_ACCESS_ERR (10)",
		"The packets", "NAK 0x62", "Seen", "As promised", "Why", "Remedy", "In general")
	if strings.Contains(out, "Question") {
		t.Errorf("a question without --ask:\n%s", out)
	}
}

func TestMistakeList(t *testing.T) {
	t.Parallel()
	out, _, status := mistake(t, "", "--list")
	if status != 0 {
		t.Errorf("status %d", status)
	}
	has(t, out, "wrong-gid", "bad-rkey", "no-receive", "early-disconnect")
	out, _, status = mistake(t, "", "--list", "--json")
	var list []struct{ Name, Title, Question string }
	if err := json.Unmarshal([]byte(out), &list); err != nil || status != 0 || len(list) < 18 || list[0].Question == "" {
		t.Errorf("status %d, %v, %d mistakes", status, err, len(list))
	}
}

func TestMistakeAsks(t *testing.T) {
	t.Parallel()
	for _, input := range []string{"\n", ""} {
		out, errs, status := mistake(t, input, "--ask", "no-receive")
		if status != 0 || errs != "" {
			t.Errorf("status %d, %s", status, errs)
		}
		has(t, out, "Setting", "Question", "Press Enter", "The calls", "RNR NAK", "Why")
		if strings.Count(out, "Setting") != 1 {
			t.Errorf("the setting is not printed once:\n%s", out)
		}
	}
}

// TestMistakeAsksWithoutALine has an input that stays open and has no line in it.
func TestMistakeAsksWithoutALine(t *testing.T) {
	t.Parallel()
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer feed.Close()
	if _, err := feed.WriteString(strings.Repeat("x", 8192)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(testkit.Context(t), filepath.Join(binaries, "rdma_lab"), "mistake", "--ask", "skipped-state")
	cmd.Stdin = in
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	has(t, string(out), "Press Enter", "The calls")
}

func TestMistakeJSON(t *testing.T) {
	t.Parallel()
	out, _, status := mistake(t, "", "--json", "bad-rkey")
	var r struct {
		Name    string
		Kept    bool
		Packets []struct{ Carries string }
		Client  struct{ Saw []string }
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != 0 || r.Name != "bad-rkey" || !r.Kept ||
		len(r.Packets) < 2 || len(r.Client.Saw) != 1 {
		t.Errorf("status %d, %v:\n%s", status, err, out)
	}
}

// TestMistakeUnsupported names an address, which only one of the two ends can open. So both
// ends share the device, and nothing stands between them.
func TestMistakeUnsupported(t *testing.T) {
	t.Parallel()
	device := "soft:" + ownAddress(3)
	out, errs, status := mistake(t, "", "--device", device, "port-blocked")
	if status != 0 || errs != "" {
		t.Errorf("status %d, %s", status, errs)
	}
	has(t, out, "port-blocked on "+device, "unsupported here, because", "Why", "Remedy")
}

func TestMistakeWrongCommandLine(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		status int
		text   string
	}{
		"":                           {2, "try: rdma_lab mistake --list"},
		"bad-rkye":                   {2, "try: bad-rkey"},
		"firewall":                   {2, "try: port-blocked"},
		"xyz":                        {2, "try: rdma_lab mistake --list"},
		"bad-rkey no-receive":        {2, "takes at most 1 argument"},
		"--ask --json bad-rkey":      {2, "try: one of them"},
		"--gid-index 300 bad-rkey":   {2, "from 0 to 255"},
		"--gid-index 7 bad-rkey":     {1, "GID index 7"},
		"--device nodevice bad-rkey": {1, "nodevice"},
	} {
		out, errs, status := mistake(t, "", strings.Fields(args)...)
		if status != want.status || !strings.Contains(errs, want.text) || out != "" {
			t.Errorf("rdma_lab mistake %s: status %d, want %d with %q\n%s%s", args, status, want.status, want.text, out, errs)
		}
	}
}
