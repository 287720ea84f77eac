//go:build cabi

package cabi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPreloadedShells runs programs that start others. The libraries are in all of them, but only
// the last ones open the device.
func TestPreloadedShells(t *testing.T) {
	const makefile = `all: one two
one two: ; @ibv_devinfo -d soft0 | grep -c PORT_ACTIVE
`
	if err := os.WriteFile(filepath.Join(bin, "Makefile.shells"), []byte(makefile), 0o644); err != nil {
		t.Fatal(err)
	}
	const python = `
import os, subprocess, multiprocessing
for i in range(3):
    assert "PORT_ACTIVE" in subprocess.run(["ibv_devinfo"], capture_output=True, text=True, check=True).stdout
def work(n): return subprocess.check_output(["sh", "-c", "ibv_devices | grep -c soft0"]) == b"1\n"
with multiprocessing.get_context("fork").Pool(2) as p:
    assert all(p.map(work, range(4)))
pid = os.fork()
if pid == 0: os.execlp("ibv_devices", "ibv_devices")
assert os.waitpid(pid, 0)[1] == 0
print("python is done")
`
	const bash = `set -euo pipefail
trap 'echo trapped' USR1; kill -USR1 $$
for i in 1 2 3; do (ibv_devinfo | grep -q PORT_ACTIVE && echo "subshell $i") & done; wait
[[ $(ibv_devices | grep -c soft0) == 1 ]]
grep -q nothing <(ibv_devices) || echo none
! grep -q core /proc/$$/maps && echo "no core in the shell"
`
	for _, c := range []struct {
		name    string
		command []string
		want    []string
	}{
		{"bash", []string{"bash", "-c", bash}, []string{"trapped", "subshell 1", "subshell 2", "subshell 3", "none", "no core in the shell"}},
		{"make", []string{"make", "-s", "-j2", "-f", "Makefile.shells"}, []string{"1\n1"}},
		{"python", []string{"python3", "-c", python}, []string{"python is done"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := onSoft(t, c.command...)
			p.succeeds()
			for _, want := range c.want {
				if !strings.Contains(p.text(), want) {
					t.Errorf("the output has no %q", want)
				}
			}
		})
	}
}
