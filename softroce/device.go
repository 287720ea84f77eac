// The device: an engine, its links and its attributes.

package softroce

import (
	crand "crypto/rand"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/internal/diagnosis/errno"
	"github.com/rawverbs/rawverbs/internal/sync/eventqueue"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

// device is an open device.
type device struct {
	name   string
	ports  []*port // in the order of their GID indexes
	mtu    qpstate.MTU
	gids   gidTable
	groups groups
	engine *transport.Engine
	start  time.Time // zero of the engine's time

	postDrivers []driver // by completion vector; they send what posting goroutines and the timer gave to the engine; see kick
	alarm       alarm
	sending     sync.RWMutex // read-locked by a goroutine that sends packets which it took from the engine

	// Which goroutine receives: receive.go, lead.go.
	receivers []*receiver
	vectors   int  // the completion vectors: the most receivers of a port
	canSpin   bool // a goroutine that polls can receive on all ports
	traffic   traffic

	standby *standby // nil unless the device is attended; see attend_linux.go

	events  eventqueue.Queue[verbs.AsyncEvent]
	capture capture
	loops   sync.WaitGroup
}

func newDevice(name string, ports []*port) *device {
	d := &device{name: name, ports: ports, mtu: smallestMTU(ports), start: time.Now(), vectors: 1, postDrivers: make([]driver, vectorsOfHost())}
	var seed [32]byte
	crand.Read(seed[:]) // never fails
	most := window(ports, d.mtu)
	d.engine = transport.New(transport.Config{
		Resolve: d.resolve, Reply: d.reply, Event: d.event, Rand: rand.NewChaCha8(seed), MTU: d.mtu, Window: most, ReadChunk: readChunk(most), Reorder: keep, Full: full, Unread: d.unread,
	})
	d.gids.init()
	d.groups.init()
	d.events.Init(isFatal)
	for i := range d.postDrivers {
		d.postDrivers[i].init(d)
	}
	d.alarm.init(d)
	d.canSpin = true
	for i, p := range ports {
		p.index = i
		p.open(d)
		d.vectors = max(d.vectors, len(p.receivers))
		for _, r := range p.receivers {
			d.receivers = append(d.receivers, r)
			d.canSpin = d.canSpin && r.try != nil
			d.loops.Go(r.run)
		}
	}
	d.watchHost()
	return d
}

// keep is the number of packets that the device keeps while an earlier one is missing: 8 MiB.
const keep = 2048

// window returns the limit of packets in flight per queue pair: as many as fit into the peer's
// receive buffer. It assumes that the peer's buffer is as large as this side's.
func window(ports []*port, mtu qpstate.MTU) int {
	const most, least = 256, 16
	w := most
	for _, p := range ports {
		if buffer := p.link.Status().ReceiveBuffer; buffer > 0 {
			w = min(w, buffer/mtu.Bytes())
		}
	}
	return max(w, least)
}

// readChunk returns how many packets one READ request asks for. Each request wakes the peer, and the
// responses of a few requests must fit into the window.
func readChunk(window int) int { return min(max(window/4, 16), 64) }

func (d *device) Info() verbs.DeviceInfo { return info(d.name) }

func (d *device) now() time.Duration { return time.Since(d.start) }

// resolve returns the path to a peer: the link of the GID index and the peer's address. It
// returns the errnos that rdma_rxe returns.
func (d *device) resolve(attr *qpstate.AHAttr) (*transport.Path, error) {
	p := d.portAt(attr.GRH.SGIDIndex)
	if p == nil {
		return nil, errno.NoData
	}
	src, dst := p.link.Addr(), attr.GRH.DGID.Addr()
	if src.Is4() != dst.Is4() || src.IsLinkLocalUnicast() != dst.IsLinkLocalUnicast() && !dst.IsMulticast() {
		return nil, syscall.EINVAL
	}
	dst = dst.WithZone(src.Zone())
	if err := p.link.Reach(dst); err != nil {
		return nil, err
	}
	source := p.link.SourcePort(attr.GRH.FlowLabel)
	return &transport.Path{
		Src: src, Dst: dst, TrafficClass: attr.GRH.TrafficClass, HopLimit: attr.GRH.HopLimit,
		Source: source, Outlet: &p.outlet(d, source).Outlet, Link: p, Joined: p.joins(dst), Flight: p.flight(dst), Shards: d.shardsOf(dst),
	}, nil
}

// reply returns the path from one of the device's addresses to a sender.
func (d *device) reply(from, to netip.Addr) *transport.Path {
	for _, p := range d.ports {
		if p.link.Addr() == from {
			return &transport.Path{Src: from, Dst: to, Outlet: &p.outlet(d, 0).Outlet, Link: p}
		}
	}
	return nil
}

// full reports whether the receiver at the end of a path lacks room for n bytes.
func full(p *transport.Path, n int) bool {
	room := p.Link.(*port).room
	return room != nil && room.Full(p.Dst, n)
}

// event delivers an engine's event. The engine's locks are held.
func (d *device) event(e transport.Event) {
	out := verbs.AsyncEvent{Type: e.Type}
	switch {
	case e.QP != nil:
		out.QPN = e.QP.QPN()
	case e.CQ != nil:
		c := e.CQ.User.(*cq)
		if out = verbs.ProviderEvent(e.Type, c); e.Type == verbs.EventCQErr {
			c.lost()
		}
	case e.SRQ != nil:
		out = verbs.ProviderEvent(e.Type, e.SRQ.User.(*srq))
	}
	d.events.Put(out)
}

func isFatal(e verbs.AsyncEvent) bool { return e.Type == verbs.EventDeviceFatal }

func (d *device) NextEvent() (verbs.AsyncEvent, error) {
	e, ok := d.events.Wait()
	if !ok {
		return verbs.AsyncEvent{}, net.ErrClosed
	}
	return e, nil
}

// guid hashes the name and the addresses, so it stays the same.
func (d *device) guid() uint64 {
	h := fnv.New64a()
	h.Write([]byte(d.name))
	for _, p := range d.ports {
		b := p.gid()
		h.Write(b[:])
	}
	return h.Sum64()
}

// Limits beyond the engine's own.
const (
	manyObjects = 1 << 20 // more than the system allows
	maxGIDs     = 16
)

func (d *device) QueryDevice() (verbs.DeviceAttr, error) {
	return verbs.DeviceAttr{
		FirmwareVersion: "softroce",
		NodeGUID:        d.guid(),
		SysImageGUID:    d.guid(),
		MaxMRSize:       math.MaxInt64,
		PageSizeCap:     ^uint64(4095),
		MaxQP:           transport.MaxQP,
		MaxQPWR:         transport.MaxQPWR,
		CapFlags:        capabilities,
		MaxSGE:          transport.MaxSGE,
		MaxSGERd:        transport.MaxSGE,
		MaxCQ:           transport.MaxCQ,
		MaxCQE:          transport.MaxCQE,
		MaxMR:           transport.MaxMR,
		MaxPD:           transport.MaxPD,
		MaxQPRdAtom:     transport.MaxRdAtomic,
		MaxResRdAtom:    manyObjects,
		MaxQPInitRdAtom: transport.MaxRdAtomic,
		AtomicCap:       verbs.AtomicHCA,
		MaxMW:           transport.MaxMW,
		MaxAH:           transport.MaxAH,
		MaxSRQ:          transport.MaxSRQ,
		MaxSRQWR:        transport.MaxQPWR,
		MaxSRQSGE:       transport.MaxSGE,
		MaxPKeys:        1,
		MaxMcastGrp:     manyObjects,
		MaxMcastQP:      manyObjects,
		MaxMcastTotalQP: manyObjects,
		PhysPortCnt:     1,
	}, nil
}

const capabilities = verbs.CapSRQResize | verbs.CapMemWindow | verbs.CapMemWindowType2B | verbs.CapMemMgtExtensions |
	verbs.CapRCRNRNAKGen | verbs.CapCurrQPStateMod | verbs.CapSysImageGUID | verbs.CapPortActiveEvent

// QueryDeviceEx reports on-demand paging for everything, because the CPU moves the data and
// can wait for a page.
func (d *device) QueryDeviceEx() (verbs.DeviceAttrEx, error) {
	attr, err := d.QueryDevice()
	const send = verbs.ODPSend | verbs.ODPRecv | verbs.ODPSRQRecv
	return verbs.DeviceAttrEx{
		DeviceAttr: attr,
		Caps:       attr.CapFlags | verbs.CapFlushGlobal | verbs.CapAtomicWrite,

		CompletionTimestampMask: math.MaxUint64, HCACoreClock: uint64(time.Millisecond),
		ODP: verbs.ODPCaps{Supported: true, UD: send, UC: send | verbs.ODPWrite,
			RC: send | verbs.ODPWrite | verbs.ODPRead | verbs.ODPAtomic | verbs.ODPFlush | verbs.ODPAtomicWrite},
	}, err
}

// QueryRawClock returns the nanoseconds since the device was opened. Completion timestamps are of
// the same clock.
func (d *device) QueryRawClock() (uint64, error) { return uint64(d.now()), nil }

// QueryCounters returns the engine's counters under their own names and the links' counters
// with the prefix link_. Each is the sum over all addresses. events_lost counts asynchronous events that no
// program took.
func (d *device) QueryCounters(uint8) (map[string]uint64, error) {
	all := make(map[string]uint64)
	for c, name := range transport.Counters() {
		all[name] = d.engine.Counter(c)
	}
	links := d.groups.counters()
	for _, r := range d.receivers {
		links.Add(r.link.Counters())
	}
	for name, n := range links.All() {
		all["link_"+name] = n
	}
	all["events_lost"] = d.events.Lost()
	return all, nil
}

func (d *device) QueryPort(number uint8) (verbs.PortAttr, error) {
	if number != 1 {
		return verbs.PortAttr{}, syscall.EINVAL
	}
	state, err := d.portState()
	if err != nil {
		return verbs.PortAttr{}, err
	}
	gids := maxGIDs
	for _, p := range d.ports {
		gids = max(gids, p.gidIndex+1)
	}
	return verbs.PortAttr{
		State:        state.logical(),
		MaxMTU:       qpstate.MTU4096,
		ActiveMTU:    d.mtu,
		GIDTableLen:  gids,
		MaxMsgSize:   transport.MaxMessage,
		PKeyTableLen: 1,
		ActiveWidth:  1, // one lane …
		ActiveSpeed:  8, // … of 10 Gbit/s, as rdma_rxe reports
		PhysState:    state.physical(),
		LinkLayer:    verbs.LinkEthernet,
	}, nil
}

func (d *device) QueryPKey(number uint8, index int) (uint16, error) {
	if number != 1 || index != 0 {
		return 0, syscall.EINVAL
	}
	return packet.DefaultPKey, nil
}

// Close closes the links and waits until the receiving goroutines have ended.
func (d *device) Close() error {
	d.waitUntilSent()
	if d.standby != nil {
		d.standby.end()
	}
	closePorts(d.ports)
	d.groups.close()
	for _, r := range d.receivers {
		r.Call() // a goroutine that stands by finds the closed link
	}
	d.loops.Wait()
	d.alarm.stop()
	d.gids.close()
	d.events.Close()
	return d.capture.stop()
}

// waitUntilSent waits up to 10 ms until packets taken from the engine are sent. The
// acknowledgement of the last message may be among them.
func (d *device) waitUntilSent() {
	const tries, pause = 100, 100 * time.Microsecond
	for range tries {
		if d.sending.TryLock() {
			d.sending.Unlock()
			if !d.packetsWait() {
				return
			}
		}
		time.Sleep(pause)
	}
}
