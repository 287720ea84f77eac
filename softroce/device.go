// The device: an engine, its links, and what it says of itself.

package softroce

import (
	crand "crypto/rand"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/internal/errno"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

// port is one address of the device: a link, and its place in the GID table. All
// are addresses of the device's one port.
type port struct {
	link  link.Link
	index int
}

func (p *port) gid() verbs.GID { return qpstate.GIDFrom(p.link.Addr().WithZone("")) }

// device is an open device.
type device struct {
	name   string
	ports  []*port // by GID index; nil is an empty slot
	mtu    qpstate.MTU
	gids   gidTable
	groups groups
	engine *transport.Engine
	start  time.Time // what the engine's time counts from

	posters driver      // sends for whoever posted; see kick
	woke    atomic.Bool // a completion has woken somebody; see receive
	alarm   alarm
	sending sync.RWMutex // read-locked by who sends what it took from the engine

	// Who receives: receive.go, lead.go.
	traffic    traffic
	waiting    atomic.Int32             // goroutines in Sleep
	lastWoke   atomic.Pointer[receiver] // the receiver that last woke a waiting goroutine
	leader     atomic.Pointer[receiver] // of the goroutine that leads and waits for packets
	unattended atomic.Pointer[receiver] // of the last leader, if nobody receives there now

	events  queue[verbs.AsyncEvent]
	capture capture
	loops   sync.WaitGroup
}

func newDevice(name string, ports []*port) *device {
	d := &device{name: name, ports: ports, mtu: smallestMTU(ports), start: time.Now()}
	var seed [32]byte
	crand.Read(seed[:]) // never fails
	d.engine = transport.New(transport.Config{
		Resolve: d.resolve, Event: d.event, Rand: rand.NewChaCha8(seed), MTU: d.mtu, Window: window(ports, d.mtu),
	})
	d.gids.init()
	d.groups.init()
	d.events.init()
	d.posters.init(d)
	d.alarm.init(d)
	for _, p := range ports {
		if p != nil {
			d.loops.Go(newReceiver(d, p).run)
		}
	}
	return d
}

func smallestMTU(ports []*port) qpstate.MTU {
	smallest := qpstate.MTU4096
	for _, p := range ports {
		if p == nil {
			continue
		}
		if mtu, ok := qpstate.MTUFor(p.link.MTU()); ok {
			smallest = min(smallest, mtu)
		}
	}
	return smallest
}

// window is how many packets of one queue pair may be under way: no more than the
// peer's receive buffer holds, which is taken to be like this side's.
func window(ports []*port, mtu qpstate.MTU) int {
	const most, least = 256, 16
	w := most
	for _, p := range ports {
		if p != nil && p.link.Status().ReceiveBuffer > 0 {
			w = min(w, p.link.Status().ReceiveBuffer/mtu.Bytes())
		}
	}
	return max(w, least)
}

func (d *device) Info() verbs.DeviceInfo { return info(d.name) }

func (d *device) now() time.Duration { return time.Since(d.start) }

// resolve finds the way to a peer: the link of the GID index, and the peer's
// address. The errnos are those that rdma_rxe gives.
func (d *device) resolve(attr *qpstate.AHAttr) (*transport.Path, error) {
	index := int(attr.GRH.SGIDIndex)
	if index >= len(d.ports) || d.ports[index] == nil {
		return nil, errno.NoData
	}
	p := d.ports[index]
	src, dst := p.link.Addr(), attr.GRH.DGID.Addr()
	if src.Is4() != dst.Is4() || src.IsLinkLocalUnicast() != dst.IsLinkLocalUnicast() && !dst.IsMulticast() {
		return nil, syscall.EINVAL
	}
	dst = dst.WithZone(src.Zone())
	if err := p.link.Reach(dst); err != nil {
		return nil, err
	}
	return &transport.Path{
		Src: src, Dst: dst, TrafficClass: attr.GRH.TrafficClass, HopLimit: attr.GRH.HopLimit,
		FlowLabel: attr.GRH.FlowLabel, Link: p,
	}, nil
}

// event passes an engine's event on. The engine's locks are held.
func (d *device) event(e transport.Event) {
	out := verbs.AsyncEvent{Type: e.Type}
	if e.QP != nil {
		out.QPN = e.QP.QPN()
	}
	if e.CQ != nil {
		out.CQ = e.CQ.User.(*cq)
	}
	if e.SRQ != nil {
		out.SRQ = e.SRQ.User.(*srq)
	}
	d.events.put(out)
}

func (d *device) NextEvent() (verbs.AsyncEvent, error) {
	e, ok := d.events.wait()
	if !ok {
		return verbs.AsyncEvent{}, net.ErrClosed
	}
	return e, nil
}

// guid is made of the name and the first address, so that it stays the same.
func (d *device) guid() uint64 {
	h := fnv.New64a()
	h.Write([]byte(d.name))
	for _, p := range d.ports {
		if p != nil {
			b := p.gid()
			h.Write(b[:])
		}
	}
	return h.Sum64()
}

// What a device grants beyond the engine's own limits: as many objects as memory
// has room for.
const (
	manyObjects = 1 << 20
	maxGIDs     = 16
)

func (d *device) QueryDevice() (verbs.DeviceAttr, error) {
	return verbs.DeviceAttr{
		FirmwareVersion: "softroce",
		NodeGUID:        d.guid(),
		SysImageGUID:    d.guid(),
		MaxMRSize:       math.MaxInt64,
		PageSizeCap:     ^uint64(4095),
		MaxQP:           manyObjects,
		MaxQPWR:         transport.MaxQPWR,
		CapFlags:        capabilities,
		MaxSGE:          transport.MaxSGE,
		MaxSGERd:        transport.MaxSGE,
		MaxCQ:           manyObjects,
		MaxCQE:          transport.MaxCQE,
		MaxMR:           manyObjects,
		MaxPD:           manyObjects,
		MaxQPRdAtom:     transport.MaxRdAtomic,
		MaxResRdAtom:    manyObjects,
		MaxQPInitRdAtom: transport.MaxRdAtomic,
		AtomicCap:       verbs.AtomicHCA,
		MaxMW:           manyObjects,
		MaxAH:           manyObjects,
		MaxSRQ:          manyObjects,
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
	verbs.CapRCRNRNAKGen | verbs.CapCurrQPStateMod | verbs.CapSysImageGUID

// QueryDeviceEx: the CPU moves the data, so that any page may be absent when it is
// needed.
func (d *device) QueryDeviceEx() (verbs.DeviceAttrEx, error) {
	attr, err := d.QueryDevice()
	const send = verbs.ODPSend | verbs.ODPRecv
	return verbs.DeviceAttrEx{
		DeviceAttr: attr,
		Caps:       attr.CapFlags | verbs.CapFlushGlobal | verbs.CapAtomicWrite,
		ODP: verbs.ODPCaps{Supported: true, UD: send, UC: send | verbs.ODPWrite,
			RC: send | verbs.ODPWrite | verbs.ODPRead | verbs.ODPAtomic | verbs.ODPFlush | verbs.ODPAtomicWrite},
	}, err
}

// QueryCounters has the engine's counters under their own names, and the links' with
// the prefix link_, each summed up over all addresses.
func (d *device) QueryCounters(uint8) (map[string]uint64, error) {
	all := make(map[string]uint64)
	for c, name := range transport.Counters() {
		all[name] = d.engine.Counter(c)
	}
	for _, p := range d.ports {
		if p == nil {
			continue
		}
		for name, n := range p.link.Counters().All() {
			all["link_"+name] += n
		}
	}
	d.groups.count(all)
	return all, nil
}

func (d *device) QueryPort(number uint8) (verbs.PortAttr, error) {
	if number != 1 {
		return verbs.PortAttr{}, syscall.EINVAL
	}
	return verbs.PortAttr{
		State:        verbs.PortActive,
		MaxMTU:       qpstate.MTU4096,
		ActiveMTU:    d.mtu,
		GIDTableLen:  max(len(d.ports), maxGIDs),
		MaxMsgSize:   transport.MaxMessage,
		PKeyTableLen: 1,
		ActiveWidth:  1, // one lane …
		ActiveSpeed:  8, // … of 10 Gbit/s, as rdma_rxe says
		PhysState:    5, // link up
		LinkLayer:    verbs.LinkEthernet,
	}, nil
}

func (d *device) QueryPKey(number uint8, index int) (uint16, error) {
	if number != 1 || index != 0 {
		return 0, syscall.EINVAL
	}
	return packet.DefaultPKey, nil
}

// Close ends the links and waits for the goroutines that receive.
func (d *device) Close() error {
	d.sent()
	closePorts(d.ports)
	d.groups.close()
	d.loops.Wait()
	d.alarm.stop()
	d.gids.close()
	d.events.close()
	return d.capture.stop()
}

// sent waits, for a moment, until what was taken from the engine is on its way: the
// acknowledgement of the last message may be among it.
func (d *device) sent() {
	const tries, pause = 100, 100 * time.Microsecond
	for range tries {
		if d.sending.TryLock() {
			d.sending.Unlock()
			return
		}
		time.Sleep(pause)
	}
}
