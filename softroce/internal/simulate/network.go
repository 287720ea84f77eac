// Package simulate measures the transport on a network in virtual time: hosts with the real
// engine, links with a rate and a delay, and one switch whose ports have a buffer, lose packets
// and mark them for congestion (ECN).
//
//	network.go   hosts, links and the clock
//	handle.go    address handles for UD
//	flow.go      queue pairs that keep messages in flight, and what is measured of them
//	scenario.go  the scenarios, with their results as a table and as drawings
//
// Command draw runs all scenarios. The seed determines everything.
package simulate

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/softroce/internal/wire"
	"github.com/rawverbs/rawverbs/verbs"
)

// Config describes a network: a switch with one port per host.
type Config struct {
	Seed   uint64
	Rate   float64       // of each link, in bits per second
	RTT    time.Duration // between two hosts, without waiting and without the time to send
	Buffer int           // bytes that may wait at a port of the switch
	Mark   int           // a port marks packets while more bytes than this wait; 0: never
	Loss   float64       // probability that the switch loses a packet

	// Receive is the receive buffer of a host, in bytes; 0: it never overflows. The host's program reads from it
	// at the rate Read, in bits per second.
	Receive int
	Read    float64

	// GoBack makes what Receiver returns drop the packets behind a gap, as rdma_rxe does.
	GoBack bool

	// Engine is the engines' configuration. HostWith fills in the rest.
	Engine transport.Config
}

const (
	// frameOverhead is the number of bytes around a packet on a link: the headers of UDP and
	// IPv4, Ethernet's header and check sum, the preamble and the gap.
	frameOverhead = 8 + 20 + 18 + 20
	// sendBuffer is the number of bytes that may wait at a host's network interface. More
	// stays in the engine, as with a socket whose send buffer is full.
	sendBuffer = 128 << 10

	// keep is what a soft device keeps, and flight is its receive buffer.
	keep, flight = 2048, 4 << 20

	outboxBytes, outboxBursts, burstPackets = 64 << 10, 4, 64
)

// Network is a network and its clock.
type Network struct {
	cfg    Config
	rng    *rand.Rand
	now    time.Duration
	hosts  []*Host
	byAddr map[netip.Addr]*Host
	events wire.Queue[event]
	free   wire.Buffers
	opened []interface{ Close() error } // for address handles; closed from the last to the first

	forwarded, lost, overflowed, marked uint64 // packets
}

// Host is a host: an engine, and a link to the switch.
type Host struct {
	net    *Network
	addr   netip.Addr
	delay  time.Duration // one way to the switch
	engine *transport.Engine
	out    *transport.Outbox
	up     line          // to the switch
	down   line          // from the switch: the port whose buffer fills
	buffer line          // the receive buffer
	wakes  time.Duration // time of the earliest wake event
	batch  []transport.Datagram

	pd    *transport.PD
	cq    *transport.CQ
	mem   []byte
	mr    *transport.MR
	flows map[uint32]*Flow // by queue pair number
}

// line is one direction of a link. Packets wait in front of it.
type line struct {
	rate   float64       // bits per second
	idle   time.Duration // when everything that waits has left
	queued series        // most bytes that waited, per period
}

// waiting returns the number of bytes in front of the line.
func (l *line) waiting(now time.Duration) int {
	return int(max(l.idle-now, 0).Seconds() * l.rate / 8)
}

// pass returns when a packet that joins the queue has left.
func (l *line) pass(now time.Duration, size int) time.Duration {
	l.idle = max(l.idle, now) + time.Duration(float64(size)*8/l.rate*1e9)
	return l.idle
}

// New returns a network without hosts.
func New(cfg Config) *Network {
	return &Network{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 1)), byAddr: make(map[netip.Addr]*Host)}
}

// Close closes what package verbs opened for the network.
func (n *Network) Close() {
	for _, o := range slices.Backward(n.opened) {
		_ = o.Close()
	}
}

const (
	hostMemory = 1 << 20 // all flows of a host move the same bytes
	hostCQ     = 1 << 14
)

// Host adds a host with the network's delay.
func (n *Network) Host() *Host { return n.HostWith(HostConfig{Delay: n.cfg.RTT / 4}) }

// Receiver adds a host that drops the packets behind a gap if the network's configuration says so.
func (n *Network) Receiver() *Host {
	return n.HostWith(HostConfig{Delay: n.cfg.RTT / 4, GoBack: n.cfg.GoBack})
}

// HostConfig describes a host.
type HostConfig struct {
	Delay  time.Duration // of its link, one way
	GoBack bool          // it drops the packets behind a gap
}

// HostWith adds a host that differs from the others.
func (n *Network) HostWith(host HostConfig) *Host {
	i := len(n.hosts) + 1
	h := &Host{net: n, addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), delay: host.Delay, wakes: wire.Never,
		up: line{rate: n.cfg.Rate}, down: line{rate: n.cfg.Rate}, buffer: line{rate: n.cfg.Read}, batch: make([]transport.Datagram, 1), flows: make(map[uint32]*Flow)}
	cfg, flight := n.cfg.Engine, flight
	if n.cfg.Receive > 0 {
		flight = n.cfg.Receive
	}
	if cfg.Reorder = keep; host.GoBack {
		cfg.Reorder = 0
	}
	cfg.Rand, cfg.MTU = rand.NewPCG(n.cfg.Seed, uint64(i)), qpstate.MTU4096
	cfg.Reply = func(from, to netip.Addr) *transport.Path { return &transport.Path{Src: from, Dst: to} }
	cfg.Resolve = func(a *qpstate.AHAttr) (*transport.Path, error) {
		return &transport.Path{Src: h.addr, Dst: a.GRH.DGID.Addr(), TrafficClass: a.GRH.TrafficClass, Flight: flight}, nil
	}
	h.engine = transport.New(cfg)
	h.out = transport.NewOutbox(make([]byte, outboxBytes), outboxBursts, burstPackets)
	h.mem = make([]byte, hostMemory)
	var err error
	if h.pd, err = h.engine.AllocPD(); err != nil {
		panic(err)
	}
	if h.cq, err = h.engine.CreateCQ(transport.CQInit{Depth: hostCQ}); err != nil {
		panic(err)
	}
	if h.mr, err = h.pd.RegisterMR(h.mem, access); err != nil {
		panic(err)
	}
	n.hosts = append(n.hosts, h)
	n.byAddr[h.addr] = h
	return h
}

const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead

// event is something that happens at a host: a packet reaches its port of the switch or the host
// itself, or the host's engine has something to do.
type event struct {
	kind kind
	host *Host
	from netip.Addr
	tos  uint8
	data []byte
}

type kind uint8

const (
	atSwitch kind = iota
	atBuffer
	atHost
	wake
)

// Run lets everything happen up to a time.
func (n *Network) Run(until time.Duration) {
	for _, h := range n.hosts {
		h.serve()
	}
	for n.events.Next() <= until {
		var e event
		n.now, e = n.events.Pop()
		switch e.kind {
		case atSwitch:
			n.forward(e)
		case atBuffer:
			n.buffer(e)
		case atHost:
			h := e.host
			h.batch[0] = transport.Datagram{Data: e.data, Src: e.from, Dst: h.addr, TOS: e.tos, TTL: 64}
			h.engine.Receive(n.now, h.batch)
			n.free.Free(e.data)
			h.serve()
		case wake:
			if n.now == e.host.wakes {
				e.host.wakes = wire.Never
				e.host.engine.Advance(n.now)
				e.host.serve()
			}
		}
	}
	n.now = until
}

// Bits of the type of service for congestion notification.
const (
	ecnMask      = 3
	ecnCongested = 3
)

// forward puts a packet into the queue of its port.
func (n *Network) forward(e event) {
	port, size := &e.host.down, len(e.data)+frameOverhead
	waiting := port.waiting(n.now)
	n.forwarded++
	port.queued.most(n.now, float64(min(waiting+size, n.cfg.Buffer)))
	switch {
	case n.cfg.Loss > 0 && n.rng.Float64() < n.cfg.Loss:
		n.lost++
		n.free.Free(e.data)
		return
	case waiting+size > n.cfg.Buffer:
		n.overflowed++
		n.free.Free(e.data)
		return
	}
	if n.cfg.Mark > 0 && waiting > n.cfg.Mark && e.tos&ecnMask != 0 {
		n.marked++
		e.tos |= ecnCongested
	}
	e.kind = atHost
	if n.cfg.Receive > 0 {
		e.kind = atBuffer
	}
	n.events.Push(port.pass(n.now, size)+e.host.delay, e)
}

// buffer puts a packet into its host's receive buffer.
func (n *Network) buffer(e event) {
	h, size := e.host, len(e.data)
	waiting := h.buffer.waiting(n.now)
	if waiting+size > n.cfg.Receive {
		n.overflowed++
		n.free.Free(e.data)
		return
	}
	e.kind = atHost
	n.events.Push(h.buffer.pass(n.now, size), e)
}

// serve lets the host's program handle completions, sends what the network interface has room
// for, and notes when the host must be served again.
func (h *Host) serve() {
	n := h.net
	h.poll()
	for h.up.waiting(n.now) < sendBuffer {
		bursts := h.engine.Transmit(n.now, h.out)
		if len(bursts) == 0 {
			h.wakeAt(wire.Never)
			return
		}
		for i := range bursts {
			b := &bursts[i]
			for raw := range slices.Chunk(b.Data, b.Segment) {
				h.send(b.Path, raw)
			}
		}
	}
	h.engine.Release(h.out)
	h.wakeAt(h.up.idle - time.Duration(sendBuffer/2*8/h.up.rate*1e9))
}

// wakeAt wakes the host at a time, or at the engine's deadline if that is earlier.
func (h *Host) wakeAt(at time.Duration) {
	if deadline, ok := h.engine.Deadline(); ok {
		at = min(at, deadline)
	}
	if at = max(at, h.net.now); at < h.wakes {
		h.wakes = at
		h.net.events.Push(at, event{kind: wake, host: h})
	}
}

func (h *Host) send(p *transport.Path, raw []byte) {
	n := h.net
	n.events.Push(h.up.pass(n.now, len(raw)+frameOverhead)+h.delay,
		event{kind: atSwitch, host: n.byAddr[p.Dst], from: h.addr, tos: p.TrafficClass, data: n.free.Copy(raw)})
}
