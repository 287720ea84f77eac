//go:build !rdma

// rawverbs without programs that use RDMA: where it finds its libraries, what the command gets,
// exit statuses. cmd/e2e/cabi runs programs on the device.

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"
)

// rawverbsIn copies rawverbs into a folder, and returns its path.
func rawverbsIn(t *testing.T, folder string) string {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(binaries, "rawverbs"))
	if err != nil {
		t.Fatal(err)
	}
	return writeIn(t, folder, "rawverbs", program)
}

func writeIn(t *testing.T, folder, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	// A child process that begins meanwhile has the file open for writing until its exec. Nobody can run
	// the file until then (ETXTBSY).
	syscall.ForkLock.RLock()
	err := os.WriteFile(file, content, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// emptyLibraries makes files with the names of the libraries. The dynamic linker complains about
// them, ignores them, and runs the program.
func emptyLibraries(t *testing.T, folder string) {
	t.Helper()
	for _, name := range []string{"librawverbs.so", "librawverbs-core.so"} {
		writeIn(t, folder, name, nil)
	}
}

// output runs a command, with one more variable in its environment.
func output(t *testing.T, variable, command string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(t.Context(), command, args...)
	cmd.Env = append(os.Environ(), variable)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), complaints.String()
}

// TestRawverbsFindsItsLibraries checks the two places, and the errors of other places.
func TestRawverbsFindsItsLibraries(t *testing.T) {
	noLeak(t)
	const show = `echo "$LD_PRELOAD $RAWVERBS_CORE"`
	for _, c := range []struct{ name, programs, libraries string }{
		{"beside", "", ""},
		{"installed", "bin", "lib/rawverbs"},
	} {
		root := t.TempDir()
		libraries := filepath.Join(root, c.libraries)
		emptyLibraries(t, libraries)
		rawverbs := rawverbsIn(t, filepath.Join(root, c.programs))
		status, out, complaints := output(t, "LD_PRELOAD=", rawverbs, "run", "--", "sh", "-c", show)
		if want := libraries + "/librawverbs.so " + libraries + "/librawverbs-core.so\n"; status != 0 || out != want {
			t.Errorf("%s: status %d, %q, want %q\n%s", c.name, status, out, want, complaints)
		}
	}
	alone := rawverbsIn(t, t.TempDir())
	spaces := filepath.Join(t.TempDir(), "a folder")
	emptyLibraries(t, spaces)
	for _, c := range []struct{ rawverbs, want string }{
		{alone, "are neither in " + filepath.Dir(alone) + " nor in "},
		{alone, "try: make libraries"},
		{rawverbsIn(t, spaces), "has a space or a colon, which LD_PRELOAD cannot hold; try: another folder"},
	} {
		if status, _, complaints := output(t, "", c.rawverbs, "run", "--", "true"); status != 125 || !strings.Contains(complaints, c.want) {
			t.Errorf("run: status %d, want 125 and %q\n%s", status, c.want, complaints)
		}
		if status, _, complaints := output(t, "", c.rawverbs, "env"); status != 1 || !strings.Contains(complaints, c.want) {
			t.Errorf("env: status %d, want 1 and %q\n%s", status, c.want, complaints)
		}
	}
}

// TestRawverbsRunsACommand checks what a command gets from rawverbs: its arguments, its exit
// status, its environment and the signals that are ignored.
func TestRawverbsRunsACommand(t *testing.T) {
	noLeak(t)
	folder := t.TempDir()
	emptyLibraries(t, folder)
	rawverbs := rawverbsIn(t, folder)
	capture := filepath.Join(folder, "it's.pcap")
	shim := filepath.Join(folder, "librawverbs.so")
	for _, c := range []struct {
		name     string
		variable string
		command  []string
		status   int
		want     string
	}{
		{"exit status", "", []string{rawverbs, "run", "--", "sh", "-c", "exit 7"}, 7, ""},
		{"arguments", "", []string{rawverbs, "run", "printf", "%s,", "--device", "x y", "--"}, 0, "--device,x y,--,"},
		{"default device", "", []string{rawverbs, "run", "--", "sh", "-c", `echo "$RAWVERBS_DEVICE,$RAWVERBS_PCAP,$RAWVERBS_EXPLAIN"`}, 0, "soft0,,\n"},
		{"all flags", "", []string{rawverbs, "run", "--device", "soft:lo", "--pcap", capture, "--explain", "--", "sh", "-c",
			`echo "$RAWVERBS_DEVICE,$RAWVERBS_PCAP,$RAWVERBS_EXPLAIN"`}, 0, "soft:lo," + capture + ",1\n"},
		{"another library", "LD_PRELOAD=/nosuch.so", []string{rawverbs, "run", "--", "sh", "-c", `echo "$LD_PRELOAD"`}, 0, "/nosuch.so:" + shim + "\n"},
		{"twice", "LD_PRELOAD=", []string{rawverbs, "run", "--", "sh", "-c", rawverbs + ` run -- sh -c 'echo "$LD_PRELOAD"'`}, 0, shim + "\n"},
		{"NCCL", "", []string{rawverbs, "run", "--", "sh", "-c", `echo "$NCCL_GIN_TYPE"`}, 0, "2\n"},
		{"NCCL's own", "NCCL_GIN_TYPE=3", []string{rawverbs, "run", "--", "sh", "-c", `echo "$NCCL_GIN_TYPE"`}, 0, "3\n"},
		{"a script", "", []string{rawverbs, "run", "--", writeIn(t, folder, "script", []byte("#!/bin/sh\nexit 3\n"))}, 3, ""},
		{"env", "LD_PRELOAD=", []string{"sh", "-c", `eval "$(` + rawverbs + ` env --pcap "` + capture + `")"; echo "$LD_PRELOAD,$RAWVERBS_DEVICE,$RAWVERBS_PCAP"`}, 0,
			shim + ",soft0," + capture + "\n"},
		{"ignored signals", "", []string{"sh", "-c", `trap "" INT HUP; exec ` + rawverbs + ` run -- sh -c 'kill -INT $$; kill -HUP $$; echo alive'`}, 0, "alive\n"},
	} {
		status, out, complaints := output(t, c.variable, c.command[0], c.command[1:]...)
		if status != c.status || out != c.want {
			t.Errorf("%s: status %d, %q, want %d, %q\n%s", c.name, status, out, c.status, c.want, complaints)
		}
	}
}

// TestRawverbsRefuses checks exit statuses and remedies.
func TestRawverbsRefuses(t *testing.T) {
	noLeak(t)
	folder := t.TempDir()
	emptyLibraries(t, folder)
	rawverbs := rawverbsIn(t, folder)
	plain := writeIn(t, folder, "plain", []byte("true\n"))
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"", 2, "rawverbs needs a command; try: rawverbs run -- ibv_devinfo"},
		{"ibv_devices", 2, "try: rawverbs run -- ibv_devices"},
		{"run", 2, "try: rawverbs run -- ibv_devinfo"},
		{"run --device mlx5_0 -- true", 2, "mlx5_0 is not a software device; try: soft0"},
		{"run --nosuch -- true", 2, "unknown flag: --nosuch"},
		{"env true", 2, "takes no arguments"},
		{"run --pcap /nosuch/x -- true", 125, "try: a file in a folder that exists"},
		{"run -- no-such-program", 127, "executable file not found in $PATH; try: "},
		{"run -- " + folder, 126, "is a directory; try: "},
		{"run -- " + plain, 126, "exec format error; try: a first line that names the interpreter"},
	} {
		status, out, complaints := output(t, "", rawverbs, strings.Fields(c.args)...)
		if status != c.status || out != "" || !strings.Contains(complaints, c.want) {
			t.Errorf("rawverbs %s: status %d, %q, want %d, %q\n%s", c.args, status, out, c.status, c.want, complaints)
		}
		lines := 1
		if status == 2 {
			lines = 3 // and the usage
		}
		if strings.Count(complaints, "\n") != lines {
			t.Errorf("rawverbs %s: %d lines, want %d\n%s", c.args, strings.Count(complaints, "\n"), lines, complaints)
		}
	}
}
