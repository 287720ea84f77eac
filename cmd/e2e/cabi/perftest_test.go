//go:build cabi

package cabi

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// perftest is one of the programs of the package perftest, with the flags of both ends.
type perftest struct{ name, flags string }

// perftests returns the legal combinations of programs, transports and ways to wait. UC and UD
// runs have fewer messages than the server has receives (512), because a server that is late
// would otherwise lose messages, as on hardware.
func perftests() (all []perftest) {
	add := func(name string, flags ...string) {
		all = append(all, perftest{name, strings.Join(flags, " ")})
	}
	for _, operation := range []string{"send", "write", "read", "atomic"} {
		for _, over := range map[string][]string{"send": {"RC", "UC", "UD"}, "write": {"RC", "UC"}, "read": {"RC"}, "atomic": {"RC"}}[operation] {
			connection := "-c " + over
			if operation == "atomic" {
				connection = ""
			}
			waits := []string{"", "-e"}
			if operation == "write" {
				waits = waits[:1] // "Events feature not available on WRITE verb"
			}
			for _, wait := range waits {
				add("ib_"+operation+"_bw", connection, wait, "-n 500")
				add("ib_"+operation+"_lat", connection, wait, "-n 500")
				if wait == "" || !testing.Short() {
					add("ib_"+operation+"_bw", connection, wait, "-n 500 -b")
				}
				if operation != "atomic" && !testing.Short() { // perftest measures the processor's clock for each size: 0.3 s
					add("ib_"+operation+"_bw", connection, wait, "-n 20 -a")
					add("ib_"+operation+"_bw", connection, wait, "-n 20 -a -b")
					add("ib_"+operation+"_lat", connection, wait, "-n 20 -a")
				}
			}
		}
	}
	add("ib_write_bw", "-n 20 -a")
	add("ib_send_bw", "-n 480 -q 4 -l 8")
	add("ib_send_bw", "-n 500 --use-srq -q 2")
	add("ib_send_lat", "-n 500 -I 64 -s 64")
	add("ib_write_bw", "-n 500 -I 64 -s 64")
	add("ib_write_bw", "-D 1")
	add("ib_atomic_bw", "-n 500 -A CMP_AND_SWAP")
	add("ib_write_bw", "-n 500 --odp")
	add("ib_write_bw", "-n 500 --mr_per_qp -q 3")
	return all
}

// c starts the program. UD's largest message is the MTU, so -a ends there.
func (p perftest) c(t *testing.T, port string, server ...string) *program {
	t.Helper()
	command := slices.Concat([]string{ours("rawverbs"), "run", "--", p.name, "-p", port}, strings.Fields(p.flags), server)
	if testing.Short() {
		command = append([]string{"LD_PRELOAD=" + compile(t, "quickclock", "-shared", "-fPIC")}, command...)
	}
	return start(t, command...)
}

// TestPerftest runs each program with itself.
func TestPerftest(t *testing.T) {
	compile(t, "quickclock", "-shared", "-fPIC") // before tests run at once
	for _, p := range perftests() {
		t.Run(p.name+" "+p.flags, func(t *testing.T) {
			if p.name == "ib_write_bw" { // its client begins with a sleep of a second
				t.Parallel()
			}
			p.withItself(t)
		})
	}
}

// withItself runs both ends on the software device.
func (p perftest) withItself(t *testing.T) {
	client := bothEnds(t, func() (server, client *program) {
		port := freePort(t)
		server = p.c(t, port)
		server.listens(port)
		return server, p.c(t, port, "127.0.0.1")
	})
	p.check(t, client)
}

// bothEnds starts two ends, checks that both end well, and returns the client. perftest compares the
// processor's clock with the system's, and gives up if it loses the processor meanwhile. Then both start again.
func bothEnds(t *testing.T, start func() (server, client *program)) (client *program) {
	t.Helper()
	testkit.Until(t, "perftest that could measure the processor's clock", func() bool {
		var server *program
		server, client = start()
		if client.status() == 0 && server.status() == 0 {
			return true
		}
		const givesUp = "Correlation coefficient r^2"
		if !strings.Contains(client.text()+server.text(), givesUp) {
			t.Fatalf("the client's status is %d", client.status())
		}
		server.kill()
		return false
	})
	return client
}

// check compares the rows of the client's table with the sizes that the flags ask for.
func (p perftest) check(t *testing.T, client *program) {
	t.Helper()
	rows, sizes := client.table(), p.sizes()
	if len(rows) != len(sizes) {
		t.Fatalf("%d rows, want the sizes %v", len(rows), sizes)
	}
	for i, row := range rows {
		if row[0] != float64(sizes[i]) || row[1] < 5 || slices.Max(row[2:]) <= 0 && sizes[i] > 1000 {
			t.Errorf("row %v, want %d bytes, iterations, and figures above 0", row, sizes[i])
		}
	}
}

// sizes returns the sizes of the rows.
func (p perftest) sizes() (sizes []int) {
	f := strings.Fields(p.flags)
	latency := strings.HasSuffix(p.name, "_lat")
	datagrams := slices.Contains(f, "UD")
	switch i := slices.Index(f, "-s"); {
	case i >= 0:
		n, _ := strconv.Atoi(f[i+1])
		return []int{n}
	case slices.Contains(f, "-a"):
		last := 8 << 20
		if datagrams {
			last = 4096
		}
		for s := 2; s <= last; s *= 2 {
			sizes = append(sizes, s)
		}
		return sizes
	case strings.HasPrefix(p.name, "ib_atomic"):
		return []int{8}
	case latency:
		return []int{2}
	case datagrams:
		return []int{4096}
	}
	return []int{65536}
}

// table returns the rows of figures that a program printed. A bandwidth program ends a row
// without a newline when another line follows.
func (p *program) table() (rows [][]float64) {
	for _, line := range p.output() {
		var row []float64
		for _, field := range strings.Fields(line) {
			f, err := strconv.ParseFloat(strings.TrimPrefix(field, "-"), 64) // a deviation may be -nan
			if err != nil {
				row = nil
				break
			}
			row = append(row, f)
		}
		if len(row) >= 4 {
			rows = append(rows, row)
		}
	}
	return rows
}

// TestPerftestWithGo runs each program over RC with rdma_client and with rdma_server.
func TestPerftestWithGo(t *testing.T) {
	for _, operation := range []string{"send", "write", "read", "atomic"} {
		for _, measure := range []string{"bw", "lat"} {
			flags := []string{"-n 200"}
			if !testing.Short() && operation != "write" {
				flags = append(flags, "-n 200 -e")
			}
			if !testing.Short() && measure == "bw" {
				flags = append(flags, "-n 200 -b")
			}
			for _, f := range flags {
				p := perftest{"ib_" + operation + "_" + measure, f}
				goes := append([]string{"--peer", "perftest", "--job", "bench-" + operation + "-" + measure}, strings.Fields(f)...)
				t.Run(p.name+" "+f+"/C server", func(t *testing.T) {
					bothEnds(t, func() (server, client *program) {
						port := freePort(t)
						server = p.c(t, port)
						server.listens(port)
						return server, start(t, slices.Concat([]string{ours("rdma_client")}, goes, []string{"127.0.0.1", "soft0", port})...)
					})
				})
				t.Run(p.name+" "+f+"/C client", func(t *testing.T) {
					client := bothEnds(t, func() (server, client *program) {
						port := freePort(t)
						server = start(t, slices.Concat([]string{ours("rdma_server"), "--once"}, goes, []string{"soft0", port})...)
						server.listens(port)
						return server, p.c(t, port, "127.0.0.1")
					})
					p.check(t, client)
				})
			}
		}
	}
}
