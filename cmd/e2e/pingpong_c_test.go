//go:build rdma && rxe

package e2e

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// cPingpong starts rdma-core's program (Debian: ibverbs-utils) on the kernel's device.
func cPingpong(t *testing.T, kind, flags, port string, server ...string) *process {
	t.Helper()
	name := "ibv_" + kind + "_pingpong"
	command := append([]string{name, "-d", device, "-g", gidIndex4, "-p", port}, strings.Fields(flags)...)
	return startCommand(t, name, append(command, server...))
}

// pingpongPlace is the device of our program. The C program is on the kernel's device.
type pingpongPlace struct {
	name    string
	by      []string
	device  string
	address string
}

func onRxe() pingpongPlace  { return pingpongPlace{"rxe0", nil, device, ipv4} }
func onSoft() pingpongPlace { return pingpongPlace{"soft", inPeer, softDevice, softIPv4} }

var cPingpongRuns = []struct {
	place func() pingpongPlace
	runs  []pingpongRun
}{
	{onRxe, []pingpongRun{
		{"rc", "-e", 8192000, 1000},
		{"rc", "-n 100 -s 64 -m 256", 12800, 100},
		{"rc", "-n 60 -s 100000 -r 1", 12000000, 60},
		{"rc", "-n 100 -s 10000 -m 512 -e -c", 2000000, 100},
		{"uc", "-n 100 -s 1 -r 3 -m 256", 200, 100},
		{"uc", "-n 100 -s 10000 -e -c", 2000000, 100},
		{"ud", "-n 100", 204800, 100},
		{"ud", "-n 100 -s 1 -r 1", 200, 100},
		{"ud", "-n 100 -s 1000 -e -c", 200000, 100},
		{"srq", "-n 100 -q 1 -r 1 -s 64 -m 512", 12800, 100},
		{"srq", "-n 300 -q 70 -r 100 -e -c", 2457600, 300},
	}},
	{onSoft, []pingpongRun{
		{"rc", "-n 100 -s 10000 -m 512 -c", 2000000, 100},
		{"rc", "-n 100 -s 64 -r 1 -e", 12800, 100},
		{"uc", "-n 100 -e -c", 819200, 100},
		{"ud", "-n 100 -s 1000 -e -c", 200000, 100},
		{"srq", "-n 300 -e", 2457600, 300},
	}},
}

// TestCPingpong runs our program with that of rdma-core, in both directions. Both must
// succeed, print the result, and print the other's queue pairs correctly.
func TestCPingpong(t *testing.T) {
	noLeak(t)
	for _, at := range cPingpongRuns {
		place := at.place()
		for _, run := range at.runs {
			t.Run(fmt.Sprintf("client on %s/%s", place.name, run.name()), func(t *testing.T) {
				port := freePort(t)
				s := cPingpong(t, run.kind, run.flags, port)
				waitListening(t, port)
				c := place.client(t, port, run.ours()...)
				c.succeeds()
				s.succeeds()
				run.check(t, c, s)
			})
			t.Run(fmt.Sprintf("server on %s/%s", place.name, run.name()), func(t *testing.T) {
				s := place.server(t, append([]string{"--once"}, run.ours()...)...)
				c := cPingpong(t, run.kind, run.flags, s.port, place.address)
				c.succeeds()
				s.succeeds()
				run.check(t, s.process, c)
			})
		}
	}
}

func (p pingpongPlace) client(t *testing.T, port string, flags ...string) *process {
	t.Helper()
	return startBy(t, p.by, "rdma_client", append(flags, "--json", ipv4, p.device, port)...)
}

func (p pingpongPlace) server(t *testing.T, flags ...string) *server {
	t.Helper()
	s := &server{process: startBy(t, p.by, "rdma_server", append(flags, "--json", p.device, "0")...)}
	_, port, err := net.SplitHostPort(s.event("server.listening").str("address"))
	if err != nil {
		t.Fatal(err)
	}
	s.port = port
	return s
}

var cPingpongAddress = regexp.MustCompile(`^ *(local|remote) address: +LID 0x\d{4}, QPN (0x\w{6}), PSN (0x\w{6})[,:] GID (\S+)$`)

// check compares the output of both ends.
func (r pingpongRun) check(t *testing.T, ours, theirs *process) {
	t.Helper()
	ours.logged(t, r.results())
	checkTransitions(t, ours)
	r.printed(t, theirs.name, theirs.lines)
	for _, line := range theirs.lines {
		if strings.Contains(line, "invalid data") {
			t.Errorf("%s: %s", theirs.name, line)
		}
	}
	var logged, printed [2][]string // the C program's addresses, then ours
	for _, e := range ours.all("peer.tuple") {
		logged[slices.Index([]string{"remote", "local"}, e.str("side"))] = append(logged[slices.Index([]string{"remote", "local"}, e.str("side"))],
			e.str("qpn")+" "+e.str("psn")+" "+e.str("gid"))
	}
	for _, line := range theirs.lines {
		if a := cPingpongAddress.FindStringSubmatch(line); a != nil {
			i := slices.Index([]string{"local", "remote"}, a[1])
			printed[i] = append(printed[i], a[2]+" "+a[3]+" "+a[4])
		}
	}
	for i, whose := range []string{"theirs", "ours"} {
		if len(printed[i]) == 0 || !slices.Equal(logged[i], printed[i]) {
			t.Errorf("addresses, %s: %s printed\n%v\nand %s logged\n%v", whose, theirs.name, printed[i], ours.name, logged[i])
		}
	}
}

// TestCPingpongDifferentFlags runs a C program with different flags. Our program must fail with one
// line that names the flags to compare. The C program may hang.
func TestCPingpongDifferentFlags(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	const limit = " --timeout 3s"
	for _, test := range []struct{ kind, ours, theirs, asClient, asServer string }{
		{"rc", "-n 50", "-n 50 -s 512", "IBV_WC_REM_", "512 bytes, but this end's have 4096; try: --size 512 here, or -s 4096"},
		{"rc", "-n 50 -s 512", "-n 50", "-s 512 -m 1024", "-s 512 -m 1024"},
		{"rc", "-n 50 -m 512", "-n 50", "-m 512", "-m 512"},
		{"rc", "-n 50", "-n 20", "-n 50", "-n 50"},
		{"uc", "-n 50", "-n 20", "-n 50 -s 4096", "-n 50 -s 4096"},
		{"uc", "-n 50 -m 512", "-n 50", "-m 512", "-m 512"},
		{"ud", "-n 50 -s 512", "-n 50", "-s 512", "-s 512"},
		{"ud", "-n 50", "-n 50 -s 512", "-s 1024", "512 bytes"},
		{"srq", "-q 4 -n 50", "-q 6 -n 50", "--qps 6 here, or -q 4 there", "--qps 6 here, or -q 4 there"},
	} {
		t.Run(fmt.Sprintf("%s/%s against %s", test.kind, test.ours, test.theirs), func(t *testing.T) {
			ours := pingpongRun{kind: test.kind, flags: test.ours + limit}.ours()
			port := freePort(t)
			cPingpong(t, test.kind, test.theirs+" -e", port) // -e: a program that hangs must not use the processor
			waitListening(t, port)
			onRxe().client(t, port, ours...).fails(1, test.asClient, "try: ")
			s := onRxe().server(t, append([]string{"--once"}, ours...)...)
			cPingpong(t, test.kind, test.theirs+" -e", s.port, ipv4)
			s.fails(1, test.asServer, "try: ")
		})
	}
	t.Run("no -g", func(t *testing.T) {
		s := onRxe().server(t, "--once", "--peer", "pingpong")
		startCommand(t, "ibv_rc_pingpong", []string{"ibv_rc_pingpong", "-d", device, "-p", s.port, ipv4})
		s.fails(1, "sent no GID", "try: ", "-g 1")
	})
	t.Run("-c at the server alone", func(t *testing.T) {
		s := onRxe().server(t, "--once", "--peer", "pingpong", "-c", "-n", "10", "-s", "9000")
		cPingpong(t, "rc", "-n 10 -s 9000", s.port, ipv4).succeeds()
		s.fails(1, "invalid data in page 0", "of all 3 pages", "try: -c at the client")
	})
}
