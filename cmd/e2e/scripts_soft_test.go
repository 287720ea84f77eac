//go:build !rdma && linux

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Tests of the scripts' errors on any host. scripts_rxe_test.go tests their function.

func TestScriptHelp(t *testing.T) {
	for _, name := range []string{"setup_rxe.sh", "capture.sh"} {
		t.Run(name, func(t *testing.T) {
			for _, flag := range []string{"-h", "--help"} {
				s := runScript(t, nil, name, flag)
				s.ends(0, "usage: "+name)
				if s.stderr.Len() > 0 {
					t.Errorf("%s writes on stderr: %s", flag, &s.stderr)
				}
			}
		})
	}
}

// TestScriptUsage checks that a wrong command line gives status 2 and the usage.
func TestScriptUsage(t *testing.T) {
	for _, c := range []struct {
		command string
		want    string
	}{
		{"setup_rxe.sh --nosuch", "unknown flag --nosuch"},
		{"setup_rxe.sh lo eth0", "only one NETDEV"},
		{"setup_rxe.sh --remove lo", "--remove takes the device from --name"},
		{"setup_rxe.sh --name", "'' is not a valid device name"},
		{"setup_rxe.sh --name a/b", "'a/b' is not a valid"},
		{"capture.sh --nosuch", "unknown flag --nosuch"},
		{"capture.sh -w", "-w needs a value"},
		{"capture.sh -p 65536", "65536 is not a TCP port"},
		{"capture.sh -t 1s", "-t takes a number above 0, not '1s'"},
		{"capture.sh -c 3", "--count needs --read"},
		{"capture.sh --read x.pcap lo", "--read reads a file"},
	} {
		t.Run(c.command, func(t *testing.T) {
			args := strings.Fields(c.command)
			runScript(t, nil, args[0], args[1:]...).ends(2, args[0]+": "+c.want, "usage: ")
		})
	}
}

// TestScriptsNeedRoot checks the error without root's rights. An ordinary user may not be able to reach the
// script, so bash gets its text.
func TestScriptsNeedRoot(t *testing.T) {
	for _, c := range [][]string{{"setup_rxe.sh", "lo"}, {"setup_rxe.sh", "--remove"}, {"capture.sh", "lo"}} {
		text, err := os.ReadFile(scriptPath(t, c[0]))
		if err != nil {
			t.Fatal(err)
		}
		s := newScript(t, nil, c[0])
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Fatal(err)
		}
		s.cmd.Path, s.cmd.Args = bash, append([]string{"bash", "-c", string(text)}, c...)
		s.cmd.Dir, s.cmd.SysProcAttr = "/", asOrdinary()
		s.start().ends(1, "needs root; try: sudo ", c[0])
	}
}

// TestScriptRefusals checks the errors of a missing capture and a missing interface.
func TestScriptRefusals(t *testing.T) {
	runScript(t, nil, "capture.sh", "--read", "/nosuch").ends(1, "cannot read /nosuch; try: ")
	runScript(t, nil, "capture.sh", "nosuch0").ends(1, "no network interface nosuch0", "this host has: ", "lo")
}
