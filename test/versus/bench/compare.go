// The comparisons: which programs, and which measurements.

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// measure is a measurement that both programs of a comparison make.
type measure struct {
	Test  string // as in the names of jobs and of perftest's programs: "write-bw"
	Size  int    // bytes per message
	Iters int
	Flags []string // other flags, which both programs accept
}

// units returns the MiB, or for latency the round trips, by which processor time is divided.
func (m measure) units() float64 {
	if m.latency() {
		return float64(m.Iters)
	}
	return float64(m.Size) * float64(m.Iters) / (1 << 20)
}

func (m measure) latency() bool { return strings.HasSuffix(m.Test, "-lat") }

// name returns, for example, "WRITE 64 KiB, bandwidth".
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

// comparison compares a program with a second one, the yardstick.
type comparison struct {
	Name    string
	Measure measure
	Aim     float64 // wanted ratio: a minimum, or a maximum for latency; 0: no aim

	ProcessorAim float64 // maximum ratio of the processor time; 0: no aim

	programs [2]program
}

// turn runs both programs. Each is first in every other round.
func (c comparison) turn(ctx context.Context, round int) (figures [2]reading, err error) {
	for i := range c.programs {
		at := (i + round) % 2
		if figures[at], err = c.programs[at].run(ctx, c.Measure); err != nil {
			return figures, err
		}
	}
	return figures, nil
}

// on is the RDMA device of both ends.
type on struct {
	device  string
	gid     string // index of the GID
	address string // IP address of the GID
	longer  int    // factor of the iterations, for devices that are faster than rxe0
	loss    string // share of the packets that the wire loses, such as "0.1%"
}

// rxe0 is the device of the virtual machine, with its IPv4 GID.
var rxe0 = on{device: "rxe0", gid: "1", address: "10.99.0.1", longer: 1}

func (o on) ours() ours { return ours{device: o.device, gid: o.gid, address: o.address} }

// part is a group of comparisons, named after the yardstick.
type part struct {
	name  string
	about string
	make  func(on) []comparison
}

var parts = []part{
	{"perftest", "rdma_server and rdma_client to perftest, both on one RDMA device", againstPerftest},
	{"rxe0", "the device in software to rdma_rxe, both by rdma_server and rdma_client", againstRXE},
	{"sockets", "soft0 to datagrams of the same size, for the processor time with two CRCs, and to echoes, over this host's loopback", againstSockets},
	{"cabi", "perftest on soft0 to rdma_server and rdma_client on soft0, over this host's loopback", perftestOnSoft},
	{"cabi-rxe0", "perftest on soft0 to perftest on rdma_rxe", perftestOnSoftAgainstRXE},
	{"lossy", "the device in software to rdma_rxe, both writing to rdma_rxe of another machine over a wire that loses packets", overLossyWire},
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
		all[i].programs = [2]program{o.ours(), perftest{on: o}}
	}
	return all
}

// againstRXE lets both programs sleep until completions arrive, as programs with other work
// do. A soft device needs the processors that polling would use.
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

// againstSockets compares the software device with programs that only move the same bytes. Our own ends sleep between
// completions (-e, "events"), as programs with other work do, except in the row "polling". perftest's ends poll.
func againstSockets(o on) (all []comparison) {
	soft := on{device: "soft0", gid: "1", address: "127.0.0.1"}
	own, theirs := ours{device: soft.device, address: soft.address}, perftest{on: soft, by: byRawverbs}
	add := func(name string, m measure, p program, what string, aim, processorAim float64) {
		m.Iters *= o.longer
		all = append(all, comparison{Name: name, Measure: m, Aim: aim, ProcessorAim: processorAim, programs: [2]program{p, sockets{what}}})
	}
	sleeping := func(m measure) measure {
		m.Flags = []string{"-e"}
		return m
	}
	for _, m := range bulk {
		m.Iters *= 30 // the link is fast
		add(m.name(), sleeping(m), own, "datagrams", 0.55, 1.35)
	}
	for _, m := range bulk {
		m.Iters *= 30
		add(m.name()+", perftest", m, theirs, "datagrams", 0.55, 1.35)
	}
	m := measure{Test: "send-lat", Size: 2, Iters: 100_000}
	add(m.name()+", polling, to a polling echo", m, own, "polling", 1.6, 2)
	add(m.name()+", events, to a blocking echo", sleeping(m), own, "blocking", 1.05, 1.8)
	add(m.name()+", events, to a blocking echo on one processor", sleeping(m), own, "near", 0, 0)
	for _, m := range bulk[:2] {
		m.Iters *= 30
		add(m.name()+", to TCP", sleeping(m), own, "tcp", 0, 0)
	}
	add(m.name()+", events, to TCP", sleeping(m), own, "tcp-echo", 0, 0)
	return all
}

// byRawverbs makes perftest run on the software device.
var byRawverbs = []string{"./rawverbs", "run", "--"}

// perftestOnSoft compares programs in C with our own on the same device, so with what cabi costs.
// Both poll, or both sleep ("events").
func perftestOnSoft(o on) (all []comparison) {
	add := func(m measure, aim float64) {
		m.Iters *= o.longer
		name := m.name()
		if slices.Contains(m.Flags, "-e") {
			name += ", events"
		}
		soft := on{device: "soft0", gid: "1", address: "127.0.0.1"}
		all = append(all, comparison{Name: name, Measure: m, Aim: aim,
			programs: [2]program{perftest{on: soft, by: byRawverbs}, ours{device: soft.device, address: soft.address}}})
	}
	for _, m := range bulk {
		m.Iters *= 10 // the link is fast
		aim := 0.0
		if m.Test == "write-bw" && m.Size == 64<<10 {
			aim = 0.9
		}
		add(m, aim)
	}
	add(measure{Test: "send-lat", Size: 2, Iters: 50_000}, 1.2)
	add(measure{Test: "write-lat", Size: 2, Iters: 50_000}, 0)
	add(measure{Test: "send-lat", Size: 2, Iters: 50_000, Flags: []string{"-e"}}, 0)
	add(measure{Test: "send-bw", Size: 64 << 10, Iters: 15_000, Flags: []string{"-e"}}, 0)
	return all
}

// perftestOnSoftAgainstRXE measures the software device with the path MTU of its loopback, and
// with rxe0's.
func perftestOnSoftAgainstRXE(o on) (all []comparison) {
	soft := on{device: "soft0", gid: "1", address: "127.0.0.1"}
	for _, mtu := range []string{"4096", "1024"} {
		for _, m := range []measure{bulk[0], bulk[1], bulk[3], bulk[5]} {
			m.Iters *= o.longer
			c := comparison{Name: m.name() + ", soft0's path MTU " + mtu, Measure: m, programs: [2]program{
				perftest{on: soft, by: append([]string{"ip", "netns", "exec", "peer"}, byRawverbs...), flags: []string{"-m", mtu}},
				perftest{on: o},
			}}
			if mtu == "4096" {
				c.Aim = 1.5
			}
			all = append(all, c)
		}
	}
	m := measure{Test: "send-lat", Size: 2, Iters: 2_000 * o.longer}
	return append(all, comparison{Name: m.name(), Measure: m, programs: [2]program{
		perftest{on: soft, by: append([]string{"ip", "netns", "exec", "peer"}, byRawverbs...)}, perftest{on: o},
	}})
}

// overLossyWire has three kinds of load: a stream, in which the next message reveals a loss; and messages one after
// the other, where nothing reveals the loss of a last packet. Both devices send packets of the same size. The wire
// loses single packets (test/vm/lossy.sh).
func overLossyWire(o on) (all []comparison) {
	client := func(device, gid, prepare string) program {
		return remote{address: o.address, device: device, gid: gid, prepare: prepare}
	}
	soft := client("soft:eth0", "", "modprobe -r rdma_rxe") // rdma_rxe holds the UDP port
	gid := fmt.Sprintf("/sys/class/infiniband/%s/ports/1/gids/%s", o.device, o.gid)
	kernel := client(o.device, o.gid, "modprobe -r rdma_rxe && modprobe rdma_rxe && rdma link add "+o.device+" type rxe netdev eth0 && "+
		"timeout 10 sh -c 'until grep -qs [1-9a-f] "+gid+"; do sleep 0.1; done'")
	for _, m := range []measure{
		{Test: "write-bw", Size: 1 << 20, Iters: 32, Flags: []string{"-t", "4"}},
		{Test: "write-bw", Size: 64 << 10, Iters: 200, Flags: []string{"-t", "1"}},
		{Test: "write-bw", Size: 4 << 10, Iters: 800, Flags: []string{"-t", "1"}},
	} {
		c := comparison{Name: fmt.Sprintf("%s lost: %s, %s in flight", o.loss, m.name(), m.Flags[1]), programs: [2]program{soft, kernel}}
		m.Iters *= o.longer
		m.Flags = append(m.Flags, "--mtu", "1024")
		c.Measure = m
		if o.loss != "0%" {
			c.Aim = 3
		}
		all = append(all, c)
	}
	return all
}

// self returns the path of this program, which also runs both ends of sockets.
func self() (string, error) { return os.Executable() }
