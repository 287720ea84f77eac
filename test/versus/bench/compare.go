// What is compared with what.

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// measure is what both programs of a comparison measure.
type measure struct {
	Test  string // as in the names of jobs and of perftest's programs: "write-bw"
	Size  int    // bytes of a message
	Iters int
	Flags []string // others, which both programs know
}

func (m measure) latency() bool { return strings.HasSuffix(m.Test, "-lat") }

// name is "WRITE 64 KiB, bandwidth".
func (m measure) name() string {
	op, _, _ := strings.Cut(m.Test, "-")
	what := "bandwidth"
	if m.latency() {
		what = "latency"
	}
	return fmt.Sprintf("%s %s, %s", strings.ToUpper(op), size(m.Size), what)
}

func size(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// comparison is of two programs, the second of which is the yardstick.
type comparison struct {
	Name    string
	Measure measure
	Aim     float64 // of the ratio: at least, or for latency at most; 0 is none

	programs [2]program
}

// turn runs both, each first in every other round.
func (c comparison) turn(ctx context.Context, round int) (figures [2]float64, err error) {
	for i := range c.programs {
		at := (i + round) % 2
		if figures[at], err = c.programs[at].run(ctx, c.Measure); err != nil {
			return figures, err
		}
	}
	return figures, nil
}

// on is where what needs an RDMA device runs: both ends on one device.
type on struct {
	device  string
	gid     string // index
	address string // of the GID
	longer  int    // so many times the iterations, for what is quicker than rxe0
}

// rxe0 is the machine's, and its GID made of an IPv4 address.
var rxe0 = on{device: "rxe0", gid: "1", address: "10.99.0.1", longer: 1}

func (o on) ours() ours { return ours{device: o.device, gid: o.gid, address: o.address} }

// A part is named after its yardstick.
type part struct {
	name  string
	about string
	make  func(on) []comparison
}

var parts = []part{
	{"perftest", "rdma_server and rdma_client to perftest, both on one RDMA device", againstPerftest},
	{"rxe0", "the device in software to rdma_rxe, both by rdma_server and rdma_client", againstRXE},
	{"sockets", "soft0 to plain sockets, over this host's loopback", againstSockets},
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

var bulk = []measure{
	{Test: "write-bw", Size: 64 << 10, Iters: 1500},
	{Test: "write-bw", Size: 1 << 20, Iters: 100},
	{Test: "read-bw", Size: 64 << 10, Iters: 1500},
	{Test: "read-bw", Size: 1 << 20, Iters: 100},
	{Test: "send-bw", Size: 64 << 10, Iters: 1500},
	{Test: "send-bw", Size: 1 << 20, Iters: 100},
}

func againstPerftest(o on) (all []comparison) {
	for _, m := range bulk {
		all = append(all, comparison{Name: m.name(), Measure: m, Aim: 1})
	}
	for _, test := range []string{"send-lat", "write-lat"} {
		m := measure{Test: test, Size: 2, Iters: 10_000}
		all = append(all, comparison{Name: m.name(), Measure: m, Aim: 1.05})
	}
	for i := range all {
		all[i].Measure.Iters *= o.longer
		all[i].programs = [2]program{o.ours(), perftest{o}}
	}
	return all
}

// againstRXE has both sleep until there are completions, as programs with other
// things to do: a soft device needs the processors that polling would take.
func againstRXE(o on) (all []comparison) {
	for _, mtu := range []string{"1024", "4096"} {
		soft := ours{by: []string{"ip", "netns", "exec", "peer"}, device: "soft0", address: "127.0.0.1", flags: []string{"--mtu", mtu}}
		measures := []measure{bulk[1], bulk[3], bulk[5]}
		if mtu == "1024" {
			measures = append(measures, measure{Test: "send-lat", Size: 2, Iters: 500})
		}
		for _, m := range measures {
			m.Flags = []string{"-e"}
			m.Iters *= o.longer
			c := comparison{Name: m.name(), Measure: m, programs: [2]program{soft, o.ours()}}
			if !m.latency() {
				c.Name += ", soft0's path MTU " + mtu
			}
			all = append(all, c)
		}
	}
	return all
}

func againstSockets(o on) (all []comparison) {
	soft := ours{device: "soft0", address: "127.0.0.1"}
	for _, m := range bulk {
		m.Iters *= 20 * o.longer // a quick link
		m.Flags = []string{"-e"}
		all = append(all, comparison{Name: m.name() + ", to TCP", Measure: m, programs: [2]program{soft, sockets{"tcp"}}})
	}
	m := measure{Test: "send-lat", Size: 2, Iters: 20_000 * o.longer, Flags: []string{"-e"}}
	for _, network := range []string{"udp", "tcp"} {
		all = append(all, comparison{Name: m.name() + ", to " + strings.ToUpper(network), Measure: m, programs: [2]program{soft, sockets{network}}})
	}
	return all
}

// self is this program, which is its own other end of sockets.
func self() (string, error) { return os.Executable() }
