// The scenarios: what runs on which network, and what came of it.

package simulate

import (
	"fmt"
	"strings"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

// Scenario is a network and the flows on it.
type Scenario struct {
	Name    string // as a file name
	Title   string
	Network Config
	Time    time.Duration
	MTU     qpstate.MTU

	// start adds hosts and flows. The lines are the links that the flows share, where the
	// queues are measured.
	start func(n *Network, mtu qpstate.MTU) (flows []*Flow, shared []*Host)
}

// Result is what a scenario's flows got.
type Result struct {
	Share    float64 // of the payload that the shared links can carry
	Jain     float64 // Jain's index over the flows
	Timeouts uint64
	WentBack uint64  // how often a requester sent again
	Lost     uint64  // packets lost at random
	Overflow uint64  // packets that found a port's buffer full
	Dropped  float64 // share of the packets that were lost, for either reason
	Marked   uint64

	// Over time, in percent, one value per period.
	Throughput, Queue, Fairness []float64
}

// Run runs the scenario. The error is the first failed work request.
func (s *Scenario) Run() (*Result, error) {
	n := New(s.Network)
	defer n.Close()
	flows, shared := s.start(n, s.MTU)
	n.Run(s.Time)
	r := &Result{Timeouts: n.Sum(transport.Timeouts), WentBack: n.Sum(transport.Retransmits), Lost: n.lost, Overflow: n.overflowed, Marked: n.marked}
	r.Dropped = float64(n.lost+n.overflowed) / float64(max(n.forwarded, 1))
	line := s.Network.line(s.MTU) * float64(len(shared))
	total, each := 0.0, make([]float64, len(flows))
	for i, f := range flows {
		if f.err != nil {
			return nil, f.err
		}
		each[i] = f.bytes
		total += f.bytes
	}
	r.Share, r.Jain = total/(line*s.Time.Seconds()), jain(each)
	for at := time.Duration(0); at < s.Time; at += period {
		sum := 0.0
		for i, f := range flows {
			each[i] = *f.rates.at(at)
			sum += each[i]
		}
		queue := 0.0
		for _, h := range shared {
			queue = max(queue, *h.down.queued.at(at))
		}
		r.Throughput = append(r.Throughput, 100*sum/(line*period.Seconds()))
		r.Queue = append(r.Queue, 100*queue/float64(s.Network.Buffer))
		r.Fairness = append(r.Fairness, 100*jain(each))
	}
	return r, nil
}

const manyBytes = 16 << 20 // a buffer that never overflows

// Loss returns one flow over a lossy link of 10 Gb/s.
func Loss(op verbs.Opcode, mtu qpstate.MTU, loss float64, d time.Duration) *Scenario {
	name := map[verbs.Opcode]string{verbs.OpRDMAWrite: "write", verbs.OpRDMARead: "read"}[op]
	return &Scenario{
		Name:    fmt.Sprintf("loss-%s-%d-%.0e", name, mtu.Bytes(), loss),
		Title:   fmt.Sprintf("%v, path MTU %d, %.2g %% of the packets lost", op, mtu.Bytes(), 100*loss),
		Network: Config{Seed: 1, Rate: 10e9, RTT: 50 * time.Microsecond, Buffer: manyBytes, Loss: loss},
		Time:    d, MTU: mtu,
		start: func(n *Network, mtu qpstate.MTU) ([]*Flow, []*Host) {
			a, b := n.Host(), n.Receiver()
			f := n.Flow(a, b, FlowConfig{Op: op, Size: 256 << 10, Depth: 8, MTU: mtu})
			if op == verbs.OpRDMARead {
				b = a
			}
			return []*Flow{f}, []*Host{b}
		},
	}
}

// Incast returns senders that write to one receiver at 25 Gb/s.
func Incast(senders, buffer, mark int, d time.Duration) *Scenario {
	return &Scenario{
		Name:    fmt.Sprintf("incast-%d-%dk-%dk", senders, buffer>>10, mark>>10),
		Title:   fmt.Sprintf("%d senders to one receiver, a buffer of %d KiB%s", senders, buffer>>10, marks(mark)),
		Network: Config{Seed: 1, Rate: 25e9, RTT: 50 * time.Microsecond, Buffer: buffer, Mark: mark},
		Time:    d, MTU: qpstate.MTU4096,
		start: func(n *Network, mtu qpstate.MTU) (flows []*Flow, shared []*Host) {
			to := n.Receiver()
			for range senders {
				flows = append(flows, n.Flow(n.Host(), to, FlowConfig{Op: verbs.OpRDMAWrite, Size: 64 << 10, Depth: 16, MTU: mtu}))
			}
			return flows, []*Host{to}
		},
	}
}

// Unreliable returns senders over UC or UD to one receiver at 25 Gb/s. Each message is one packet.
func Unreliable(kind verbs.QPType, senders, buffer, mark int, d time.Duration) *Scenario {
	return &Scenario{
		Name:    fmt.Sprintf("incast-%s-%d-%dk-%dk", strings.ToLower(kindName(kind)), senders, buffer>>10, mark>>10),
		Title:   fmt.Sprintf("%d senders over %s, a buffer of %d KiB%s", senders, kindName(kind), buffer>>10, marks(mark)),
		Network: Config{Seed: 1, Rate: 25e9, RTT: 50 * time.Microsecond, Buffer: buffer, Mark: mark},
		Time:    d, MTU: qpstate.MTU4096,
		start: func(n *Network, mtu qpstate.MTU) (flows []*Flow, shared []*Host) {
			to := n.Host()
			for range senders {
				flows = append(flows, n.Flow(n.Host(), to, FlowConfig{Type: kind, Op: verbs.OpSend, Size: mtu.Bytes(), Depth: 64, MTU: mtu}))
			}
			return flows, []*Host{to}
		},
	}
}

// FanIn returns a requester that READs from many responders at 25 Gb/s. Its receive buffer holds a few bytes, and
// its program reads them at 20 Gb/s.
func FanIn(responders, receive int, d time.Duration) *Scenario {
	return &Scenario{
		Name:    fmt.Sprintf("fan-in-%d-%dk", responders, receive>>10),
		Title:   fmt.Sprintf("READs, number of responders: %d, a receive buffer of %d KiB", responders, receive>>10),
		Network: Config{Seed: 1, Rate: 25e9, RTT: 50 * time.Microsecond, Buffer: manyBytes, Receive: receive, Read: 20e9},
		Time:    d, MTU: qpstate.MTU4096,
		start: func(n *Network, mtu qpstate.MTU) (flows []*Flow, shared []*Host) {
			to := n.Host()
			for range responders {
				flows = append(flows, n.Flow(to, n.Host(), FlowConfig{Op: verbs.OpRDMARead, Size: 64 << 10, Depth: 16, MTU: mtu}))
			}
			return flows, []*Host{to}
		},
	}
}

// Mixed returns a sender over UC and one over RC to one receiver at 25 Gb/s.
func Mixed(buffer, mark int, d time.Duration) *Scenario {
	return &Scenario{
		Name:    fmt.Sprintf("mixed-uc-rc-%dk-%dk", buffer>>10, mark>>10),
		Title:   fmt.Sprintf("a sender over UC and one over RC, a buffer of %d KiB%s", buffer>>10, marks(mark)),
		Network: Config{Seed: 1, Rate: 25e9, RTT: 50 * time.Microsecond, Buffer: buffer, Mark: mark},
		Time:    d, MTU: qpstate.MTU4096,
		start: func(n *Network, mtu qpstate.MTU) ([]*Flow, []*Host) {
			to := n.Host()
			return []*Flow{
				n.Flow(n.Host(), to, FlowConfig{Type: verbs.UC, Op: verbs.OpSend, Size: mtu.Bytes(), Depth: 64, MTU: mtu}),
				n.Flow(n.Host(), to, FlowConfig{Op: verbs.OpRDMAWrite, Size: 64 << 10, Depth: 16, MTU: mtu}),
			}, []*Host{to}
		},
	}
}

func kindName(kind verbs.QPType) string { return strings.TrimPrefix(kind.String(), "IBV_QPT_") }

func marks(mark int) string {
	if mark == 0 {
		return ", no marks"
	}
	return fmt.Sprintf(", marks from %d KiB on", mark>>10)
}

// MixedRTT returns eight senders with round trips of 20 to 160 µs that write to one receiver.
func MixedRTT(mark int, d time.Duration) *Scenario {
	return &Scenario{
		Name:    fmt.Sprintf("mixed-rtt-%dk", mark>>10),
		Title:   "8 senders with round trips of 20 to 160 µs, a buffer of 1 MiB" + marks(mark),
		Network: Config{Seed: 1, Rate: 25e9, RTT: 20 * time.Microsecond, Buffer: 1 << 20, Mark: mark},
		Time:    d, MTU: qpstate.MTU4096,
		start: func(n *Network, mtu qpstate.MTU) (flows []*Flow, shared []*Host) {
			to := n.Host()
			for i := range 8 {
				from := n.HostWith(HostConfig{Delay: time.Duration(5+10*i) * time.Microsecond})
				flows = append(flows, n.Flow(from, to, FlowConfig{Op: verbs.OpRDMAWrite, Size: 64 << 10, Depth: 16, MTU: mtu}))
			}
			return flows, []*Host{to}
		},
	}
}

// Many returns hosts that each write to some others, chosen at random, so that some ports have more
// senders than others.
func Many(hosts, peers, mark int, d time.Duration) *Scenario {
	return &Scenario{
		Name:    fmt.Sprintf("many-%d-%d-%dk", hosts, peers, mark>>10),
		Title:   fmt.Sprintf("%d hosts with %d peers each, buffers of 1 MiB%s", hosts, peers, marks(mark)),
		Network: Config{Seed: 1, Rate: 10e9, RTT: 50 * time.Microsecond, Buffer: 1 << 20, Mark: mark},
		Time:    d, MTU: qpstate.MTU4096,
		start: func(n *Network, mtu qpstate.MTU) (flows []*Flow, shared []*Host) {
			for range hosts {
				shared = append(shared, n.Host())
			}
			for i, from := range shared {
				for range peers {
					to := (i + 1 + n.rng.IntN(hosts-1)) % hosts
					flows = append(flows, n.Flow(from, shared[to], FlowConfig{Op: verbs.OpRDMAWrite, Size: 32 << 10, Depth: 4, MTU: mtu}))
				}
			}
			return flows, shared
		},
	}
}

// Far returns the scenario with a round trip of 400 µs.
func Far(s *Scenario) *Scenario {
	s.Network.RTT = 400 * time.Microsecond
	s.Name += "-far"
	s.Title += ", a round trip of 400 µs"
	return s
}

// GoBack returns the scenario, one of Loss or Incast, with receivers that drop the packets behind a gap.
func GoBack(s *Scenario) *Scenario {
	s.Network.GoBack = true
	s.Name += "-go-back"
	s.Title += ", packets behind a gap are dropped"
	return s
}

// marksFrom is the number of waiting bytes from which a port marks packets, in the scenarios with marks.
const marksFrom = 64 << 10

// All returns every scenario.
func All() (all []*Scenario) {
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		for _, mtu := range []qpstate.MTU{qpstate.MTU1024, qpstate.MTU4096} {
			for _, loss := range []float64{0, 1e-4, 1e-3, 1e-2} {
				all = append(all, Loss(op, mtu, loss, time.Second))
			}
		}
	}
	for _, mtu := range []qpstate.MTU{qpstate.MTU1024, qpstate.MTU4096} {
		for _, loss := range []float64{1e-4, 1e-3, 1e-2} {
			all = append(all, GoBack(Loss(verbs.OpRDMAWrite, mtu, loss, time.Second)))
		}
	}
	for _, buffer := range []int{256 << 10, 1 << 20, 4 << 20} {
		all = append(all, Incast(8, buffer, 0, 500*time.Millisecond), Incast(8, buffer, marksFrom, 500*time.Millisecond),
			GoBack(Incast(8, buffer, 0, 500*time.Millisecond)))
	}
	for _, senders := range []int{8, 32} {
		all = append(all, GoBack(Far(Incast(senders, 64<<10, 0, 500*time.Millisecond))))
	}
	for _, mark := range []int{0, marksFrom} {
		for _, kind := range []verbs.QPType{verbs.UC, verbs.UD} {
			for _, buffer := range []int{256 << 10, 1 << 20} {
				all = append(all, Unreliable(kind, 8, buffer, mark, 500*time.Millisecond))
			}
		}
		all = append(all, Mixed(1<<20, mark, 500*time.Millisecond))
	}
	for _, responders := range []int{1, 8, 32} {
		all = append(all, FanIn(responders, 256<<10, 500*time.Millisecond))
	}
	return append(all, MixedRTT(0, 500*time.Millisecond), MixedRTT(marksFrom, 500*time.Millisecond),
		Many(1000, 8, 0, 10*time.Millisecond), Many(1000, 8, marksFrom, 10*time.Millisecond))
}
