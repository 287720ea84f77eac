//go:build rdma && rxe

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cProgram starts a C program, unchanged, on the software device in the second network namespace.
func cProgram(t *testing.T, command ...string) *process {
	t.Helper()
	rawverbs := []string{filepath.Join(binaries, "rawverbs"), "run", "--device", softDevice, "--"}
	return startCommand(t, command[0], slices.Concat(inPeer, rawverbs, command))
}

// TestCSoftWithRxe runs a C program on the software device with the same program on the kernel's
// device. See runs.
func TestCSoftWithRxe(t *testing.T) {
	noLeak(t)
	type program struct{ command, gidFlag string }
	var programs []program
	for _, kind := range []string{"rc", "uc", "ud", "srq"} {
		for _, flags := range []string{"-n 100 -c", "-n 100 -c -e"} {
			programs = append(programs, program{"ibv_" + kind + "_pingpong " + flags, "-g"})
		}
	}
	for _, operation := range []string{"send", "write", "read", "atomic"} {
		for _, measure := range []string{"bw", "lat"} {
			programs = append(programs, program{"ib_" + operation + "_" + measure + " -n 100", "-x"})
		}
	}
	programs = append(programs, program{"ib_send_lat -c UD -n 100", "-x"}, program{"ib_write_lat -c UC -n 100", "-x"})
	for number, r := range programs {
		words := strings.Fields(r.command)
		soft := func(t *testing.T, port string, server ...string) *process {
			return cProgram(t, slices.Concat(words, []string{"-d", strings.ReplaceAll(softDevice, ":", "-"), r.gidFlag, "1", "-p", port}, server)...)
		}
		rxe := func(t *testing.T, port string, server ...string) *process {
			return startCommand(t, words[0], slices.Concat(words, []string{"-d", device, r.gidFlag, gidIndex4, "-p", port}, server))
		}
		for direction, start := range []struct {
			name string
			both func(t *testing.T) (server, client *process)
		}{
			{"server on soft", func(t *testing.T) (server, client *process) {
				port := freePort(t)
				server = soft(t, port)
				waitListeningIn(t, server, port)
				return server, rxe(t, port, softIPv4)
			}},
			{"server on rxe0", func(t *testing.T) (server, client *process) {
				port := freePort(t)
				server = rxe(t, port)
				waitListening(t, port)
				return server, soft(t, port, ipv4)
			}},
		} {
			if !runs(number, direction) {
				continue
			}
			t.Run(r.command+"/"+start.name, func(t *testing.T) {
				server, client := bothEnd(t, func() (server, client *process) { return start.both(t) })
				checkCPrograms(t, server, client)
			})
		}
	}
}

// waitListeningIn is waitListening in the network namespace of a process.
func waitListeningIn(t *testing.T, p *process, port string) {
	t.Helper()
	waitListeningTables(t, port, fmt.Sprintf("/proc/%d/net", p.cmd.Process.Pid))
}

// checkCPrograms checks the exit statuses and the client's result.
func checkCPrograms(t *testing.T, server, client *process) {
	t.Helper()
	for _, p := range []*process{client, server} {
		if status := p.waitLong(); status != 0 {
			t.Fatalf("%q: status %d", p.cmd.Args, status)
		}
		if text := strings.Join(p.lines, "\n"); strings.Contains(text, "invalid data") {
			t.Errorf("%q: invalid data", p.cmd.Args)
		}
	}
	if text := strings.Join(client.lines, "\n"); !strings.Contains(text, "bytes in") && !strings.Contains(text, "#bytes") {
		t.Errorf("%q: no result", client.cmd.Args)
	}
}
