// The provider: the engine's objects as objects of package verbs. Each call that may give the
// engine something to send ends with World.transmit. softroce/objects.go does the same for
// devices with sockets.

package simulated

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/internal/diagnosis/errno"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

func init() { verbs.Register(provider{}) }

// provider opens the device that New is opening, and lists none.
type provider struct{}

var opening struct {
	sync.Mutex
	device *device
}

func (provider) Name() string                         { return "softroce/simulated" }
func (provider) Devices() ([]verbs.DeviceInfo, error) { return nil, nil }

func (provider) Open(name string) (verbs.ProviderDevice, error) {
	if d := opening.device; d != nil && d.name == name {
		return d, nil
	}
	return nil, syscall.ENODEV
}

// open returns a verbs.Device of d.
func (d *device) open(options verbs.OpenOptions) (*verbs.Device, error) {
	opening.Lock()
	defer opening.Unlock()
	opening.device = d
	defer func() { opening.device = nil }()
	return verbs.OpenWith(d.name, options)
}

// device is one host's device.
type device struct {
	world  *World
	host   Host
	name   string
	addr   netip.Addr
	engine *transport.Engine
	outbox *transport.Outbox
	dev    *verbs.Device

	// The objects, in the order in which they were made.
	qps  []*qp
	cqs  []*cq
	srqs []*srq
}

func (d *device) Info() verbs.DeviceInfo {
	return verbs.DeviceInfo{Name: d.name, Provider: provider{}.Name(), NodeType: verbs.NodeCA, Transport: verbs.TransportIB, Index: -1}
}

func (d *device) resolve(attr *qpstate.AHAttr) (*transport.Path, error) {
	if attr.GRH.SGIDIndex != gidIndex {
		return nil, errno.NoData
	}
	dst := attr.GRH.DGID.Addr()
	if !dst.Is4() {
		return nil, syscall.EINVAL
	}
	return &transport.Path{Src: d.addr, Dst: dst, TrafficClass: attr.GRH.TrafficClass, HopLimit: attr.GRH.HopLimit, Flight: flight}, nil
}

// gidIndex is the one slot of the GID table that is filled. Slot 0 is empty, as with soft0.
const gidIndex = 1

// flight limits what a host's queue pairs have in flight to one address. With a limit they obey marks, so switches may mark their packets.
const flight = 1 << 20

func (d *device) QueryDevice() (verbs.DeviceAttr, error) {
	return verbs.DeviceAttr{FirmwareVersion: "softroce", NodeGUID: uint64(d.host) + 1, SysImageGUID: uint64(d.host) + 1, MaxMRSize: 1 << 30,
		PageSizeCap: 1 << 12, MaxQP: transport.MaxQP, MaxQPWR: transport.MaxQPWR, MaxSGE: transport.MaxSGE, MaxSGERd: transport.MaxSGE, MaxCQ: transport.MaxCQ,
		MaxCQE: transport.MaxCQE, MaxMR: transport.MaxMR, MaxPD: transport.MaxPD, MaxQPRdAtom: transport.MaxRdAtomic, MaxResRdAtom: many,
		MaxQPInitRdAtom: transport.MaxRdAtomic, AtomicCap: verbs.AtomicHCA, MaxMW: transport.MaxMW, MaxAH: transport.MaxAH, MaxSRQ: transport.MaxSRQ,
		MaxSRQWR: transport.MaxQPWR, MaxSRQSGE: transport.MaxSGE, MaxPKeys: 1, PhysPortCnt: 1,
		CapFlags: verbs.CapSRQResize | verbs.CapMemWindow | verbs.CapMemWindowType2B | verbs.CapRCRNRNAKGen}, nil
}

const many = 1 << 20

func (d *device) QueryPort(number uint8) (verbs.PortAttr, error) {
	if number != 1 {
		return verbs.PortAttr{}, syscall.EINVAL
	}
	return verbs.PortAttr{State: verbs.PortActive, MaxMTU: qpstate.MTU4096, ActiveMTU: d.world.cfg.MTU, GIDTableLen: gidIndex + 1,
		MaxMsgSize: transport.MaxMessage, PKeyTableLen: 1, ActiveWidth: 1, ActiveSpeed: 8, PhysState: 5, LinkLayer: verbs.LinkEthernet}, nil
}

func (d *device) QueryGIDTable() ([]verbs.GIDEntry, error) {
	return []verbs.GIDEntry{{GID: qpstate.GIDFrom(d.addr), Port: 1, Index: gidIndex, Type: verbs.GIDTypeRoCEv2}}, nil
}

func (d *device) QueryPKey(number uint8, index int) (uint16, error) {
	if number != 1 || index != 0 {
		return 0, syscall.EINVAL
	}
	return packet.DefaultPKey, nil
}

func (d *device) AllocPD() (verbs.ProviderPD, error) {
	p, err := d.engine.AllocPD()
	if err != nil {
		return nil, err
	}
	return &pd{d, p}, nil
}

func (d *device) CompVectors() int { return 1 }
func (d *device) Close() error     { return nil }

// NextEvent returns at once: the events are in World.TakeEvents.
func (d *device) NextEvent() (verbs.AsyncEvent, error) { return verbs.AsyncEvent{}, net.ErrClosed }

type channel struct{}

func (d *device) CreateCompChannel() (verbs.ProviderCompChannel, error) { return channel{}, nil }
func (channel) Close() error                                            { return nil }

// cq is a completion queue.
type cq struct {
	d *device
	*transport.CQ
}

func (d *device) CreateCQ(init verbs.ProviderCQInit) (verbs.ProviderCQ, error) {
	if init.Vector != 0 {
		return nil, syscall.EINVAL
	}
	if init.Ex != 0 || init.Flags != 0 {
		return nil, syscall.EOPNOTSUPP
	}
	c := &cq{d: d}
	t, err := d.engine.CreateCQ(transport.CQInit{Depth: init.Depth, Notify: func() { d.world.notify(d, c) }, Delay: func(time.Duration) {}})
	if err != nil {
		return nil, err
	}
	c.CQ = t
	t.User, d.cqs = c, append(d.cqs, c)
	return c, nil
}

func (c *cq) PollEx([]verbs.WCEx) (int, error)  { return 0, syscall.EINVAL }
func (c *cq) Arm(solicitedOnly bool) error      { c.CQ.Arm(solicitedOnly); return nil }
func (c *cq) Moderate(int, time.Duration) error { return syscall.EOPNOTSUPP }

func (c *cq) Close() error {
	c.d.cqs = without(c.d.cqs, c)
	return c.CQ.Close()
}

func without[T comparable](list []T, gone T) []T {
	return slices.DeleteFunc(list, func(x T) bool { return x == gone })
}

// pd is a protection domain.
type pd struct {
	d  *device
	pd *transport.PD
}

func (p *pd) Close() error { return p.pd.Close() }

func (p *pd) RegMR(buf []byte, iova uint64, access verbs.Access) (verbs.ProviderMR, error) {
	return orError[verbs.ProviderMR](p.pd.RegisterAt(buf, iova, access))
}

func (p *pd) AllocMW(t verbs.MWType) (verbs.ProviderMW, error) {
	return orError[verbs.ProviderMW](p.pd.AllocMW(t))
}

func (p *pd) CreateAH(attr verbs.AHAttr) (verbs.ProviderAH, error) {
	return orError[verbs.ProviderAH](p.pd.CreateAH(attr))
}

// orError keeps a nil pointer from becoming an interface that is not nil.
func orError[I any, T any](object *T, err error) (I, error) {
	if err != nil {
		var none I
		return none, err
	}
	return any(object).(I), nil
}

// srq is a shared receive queue.
type srq struct {
	d *device
	*transport.SRQ
}

func (p *pd) CreateSRQ(init verbs.SRQInit) (verbs.ProviderSRQ, error) {
	t, err := p.pd.CreateSRQ(init.MaxWR, init.MaxSGE)
	if err != nil {
		return nil, err
	}
	s := &srq{p.d, t}
	t.User, p.d.srqs = s, append(p.d.srqs, s)
	return s, nil
}

func (s *srq) Query() (verbs.SRQAttr, error) { return s.SRQ.Query(), nil }
func (s *srq) Number() (uint32, error)       { return s.SRQ.Number(), nil }

func (s *srq) Close() error {
	s.d.srqs = without(s.d.srqs, s)
	return s.SRQ.Close()
}

// qp is a queue pair.
type qp struct {
	d *device
	*transport.QP

	cause  int    // number of the packet that it received last
	again  Repeat // why its requester went back the last time
	sigAll bool   // every send is signaled
	sendCQ *cq
	places []place       // the requests that have a place in the send queue, the oldest first
	state  qpstate.State // as the program or an event of the world has seen it last
	old    int           // completions in the CQ that are of requests from before a reset
}

func (p *pd) CreateQP(init verbs.ProviderQPInit) (verbs.ProviderQP, error) {
	if init.PostPath == verbs.PostWRAPI {
		return nil, syscall.EOPNOTSUPP
	}
	t := transport.QPInit{Type: init.Type, SendCQ: init.SendCQ.(*cq).CQ, RecvCQ: init.RecvCQ.(*cq).CQ, Cap: init.Cap, SigAll: init.SigAll}
	if init.SRQ != nil {
		t.SRQ = init.SRQ.(*srq).SRQ
	}
	created, err := p.pd.CreateQP(t)
	if err != nil {
		return nil, err
	}
	q := &qp{d: p.d, QP: created, sigAll: init.SigAll, sendCQ: init.SendCQ.(*cq)}
	created.User, p.d.qps = q, append(p.d.qps, q)
	return q, nil
}

func (q *qp) Modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	was := q.state
	err := q.QP.Modify(attr, mask)
	q.hasMoved() // the program knows
	switch {
	case err != nil || mask&qpstate.MaskState == 0:
	case attr.State == qpstate.Reset:
		q.reset()
	case attr.State == qpstate.RTS && was == qpstate.SQE:
		q.resume()
	}
	q.d.world.transmit()
	return err
}

// hasMoved reports whether the state is another than at the last call.
func (q *qp) hasMoved() bool {
	was := q.state
	q.state = q.QP.Query().State
	return q.state != was
}

func (q *qp) Query(verbs.QPAttrMask) (verbs.QPAttr, error) { return q.QP.Query(), nil }

func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	most := min(len(wrs), q.room())
	n, err := q.QP.PostSend(wrs[:most])
	if err == nil && most < len(wrs) {
		err = syscall.ENOMEM
	}
	for i := range wrs[:n] {
		q.occupy(&wrs[i])
	}
	q.d.world.transmit()
	return n, err
}

func (q *qp) BindMW(id uint64, flags verbs.SendFlags, b *verbs.MWBind) error {
	if q.room() == 0 {
		return syscall.ENOMEM
	}
	err := q.QP.BindMW(id, flags, b)
	if err == nil {
		q.occupy(&verbs.SendWR{ID: id, Flags: flags, Opcode: verbs.OpBindMW})
	}
	q.d.world.transmit()
	return err
}

func (q *qp) Close() error {
	err := q.QP.Close()
	if err == nil {
		q.d.qps = without(q.d.qps, q)
	}
	return err
}
