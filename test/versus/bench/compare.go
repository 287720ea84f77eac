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

// parts are the comparisons, by what has to be there for them.
var (
	partNames = []string{"rxe0", "soft-rxe0", "soft"}
	parts     = map[string]func() []comparison{"rxe0": againstPerftest, "soft-rxe0": softAgainstRXE, "soft": softAgainstSockets}
	partAbout = map[string]string{
		"rxe0":      "rdma_server and rdma_client to perftest, both on rxe0, in the machine",
		"soft-rxe0": "the device in software to rdma_rxe, in the machine, both by rdma_server and rdma_client",
		"soft":      "soft0 to plain sockets, over this host's loopback",
	}
)

// rxe0's address in the machine, and the index of the GID made of it.
const (
	rxeAddress = "10.99.0.1"
	rxeGID     = "1"
)

var bulk = []measure{
	{Test: "write-bw", Size: 64 << 10, Iters: 500},
	{Test: "write-bw", Size: 1 << 20, Iters: 32},
	{Test: "read-bw", Size: 64 << 10, Iters: 500},
	{Test: "read-bw", Size: 1 << 20, Iters: 32},
	{Test: "send-bw", Size: 64 << 10, Iters: 500},
	{Test: "send-bw", Size: 1 << 20, Iters: 32},
}

func againstPerftest() (all []comparison) {
	for _, m := range bulk {
		all = append(all, comparison{Name: m.name(), Measure: m, Aim: 1})
	}
	for _, test := range []string{"send-lat", "write-lat"} {
		m := measure{Test: test, Size: 2, Iters: 5000}
		all = append(all, comparison{Name: m.name(), Measure: m, Aim: 1.05})
	}
	for i := range all {
		all[i].programs = [2]program{ours{device: "rxe0", gid: rxeGID, address: rxeAddress}, perftest{}}
	}
	return all
}

// softAgainstRXE has both sleep until there are completions, as programs with other
// things to do: a soft device needs the processors that polling would take.
func softAgainstRXE() (all []comparison) {
	for _, mtu := range []string{"1024", "4096"} {
		soft := ours{by: []string{"ip", "netns", "exec", "peer"}, device: "soft0", address: "127.0.0.1", flags: []string{"--mtu", mtu}}
		measures := []measure{bulk[1], bulk[3], bulk[5]}
		if mtu == "1024" {
			measures = append(measures, measure{Test: "send-lat", Size: 2, Iters: 5000})
		}
		for _, m := range measures {
			m.Flags = []string{"-e"}
			c := comparison{Name: m.name(), Measure: m, programs: [2]program{soft, ours{device: "rxe0", gid: rxeGID, address: rxeAddress}}}
			if !m.latency() {
				c.Name += ", soft0's path MTU " + mtu
			}
			all = append(all, c)
		}
	}
	return all
}

func softAgainstSockets() (all []comparison) {
	soft := ours{device: "soft0", address: "127.0.0.1"}
	for _, m := range bulk {
		m.Iters *= 20 // a quick link
		m.Flags = []string{"-e"}
		all = append(all, comparison{Name: m.name() + ", to TCP", Measure: m, programs: [2]program{soft, sockets{"tcp"}}})
	}
	m := measure{Test: "send-lat", Size: 2, Iters: 20_000, Flags: []string{"-e"}}
	for _, network := range []string{"udp", "tcp"} {
		all = append(all, comparison{Name: m.name() + ", to " + strings.ToUpper(network), Measure: m, programs: [2]program{soft, sockets{network}}})
	}
	return all
}

// self is this program, which is its own other end of sockets.
func self() (string, error) { return os.Executable() }
