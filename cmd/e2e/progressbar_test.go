//go:build linux && !rdma

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestProgressBar checks that the progress bar is shown only on a terminal, and not with
// --json or --quiet.
func TestProgressBar(t *testing.T) {
	noLeak(t)
	s := serve(t, "--dir", t.TempDir())
	for _, c := range []struct {
		name                     string
		outTerminal, errTerminal bool
		flags                    []string
		bar                      bool
	}{
		{"a terminal", true, true, nil, true},
		{"standard output elsewhere", false, true, nil, false},
		{"standard error elsewhere", true, false, nil, false},
		{"--quiet", true, true, []string{"--quiet"}, false},
		{"--ladder", true, true, []string{"--ladder"}, true},
		{"--json", true, true, []string{"--json"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append(c.flags, "--job", "bulk", "--size", "64M", "--chunk", "256K", ipv4, device, s.port)
			shown, elsewhere := onTerminal(t, c.outTerminal, c.errTerminal, filepath.Join(binaries, "rdma_client"), args...)
			bar := strings.Contains(shown, "/ 64.0 MiB") && strings.Contains(shown, " %")
			if bar != c.bar {
				t.Errorf("a bar was shown: %v, want %v:\n%q", bar, c.bar, shown)
			}
			if strings.Contains(elsewhere, "/ 64.0 MiB") || strings.Contains(elsewhere, "\x1b") {
				t.Errorf("a bar was shown to no terminal: %q", elsewhere)
			}
		})
	}
	large := writeFile(t, "large", 0)
	if err := os.Truncate(large, 64<<20); err != nil { // sparse
		t.Fatal(err)
	}
	shown, _ := onTerminal(t, true, true, filepath.Join(binaries, "rdma_client"), "--job", "file", "--file", large, ipv4, device, s.port)
	if !strings.Contains(shown, "/ 64.0 MiB") {
		t.Errorf("no bar was shown for a file:\n%q", shown)
	}
	s.stops()
}

// onTerminal runs a program with standard output, standard error, or both on a terminal. It
// returns the output on the terminal and the other output. The program must succeed.
func onTerminal(t *testing.T, stdout, stderr bool, name string, args ...string) (shown, elsewhere string) {
	t.Helper()
	terminal, inside := openTerminal(t)
	cmd := exec.Command(name, args...)
	var other bytes.Buffer
	cmd.Stdout, cmd.Stderr = &other, &other
	if stdout {
		cmd.Stdout = inside
	}
	if stderr {
		cmd.Stderr = inside
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inside.Close()
	text, _ := io.ReadAll(terminal) // ends with EIO when no process has the terminal open
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s%s", err, text, &other)
	}
	return string(text), other.String()
}

// openTerminal opens a pseudo-terminal of 100 columns and returns its two sides: outer for
// the test, inner for the program.
func openTerminal(t *testing.T) (outer, inner *os.File) {
	t.Helper()
	outer, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { outer.Close() })
	fd := int(outer.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	inner, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inner.Close() })
	return outer, inner
}
