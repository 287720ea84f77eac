package softroce

import (
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/verbs"
)

// Led returns how often a waiting goroutine has led on a device, or received between two polls.
func Led(dev *verbs.Device) (n uint64) {
	for _, r := range verbs.ProviderOf(dev).(*device).receivers {
		n += r.led.Load()
	}
	return n
}

// LedAt is Led for the receiver of a CQ's queue pairs.
func LedAt(p *verbs.CQ) uint64 { return verbs.ProviderOf(p).(*cq).home.Load().led.Load() }

// Receiving reports whether goroutines receive for a device at all of its receivers.
func Receiving(dev *verbs.Device) bool {
	for _, r := range verbs.ProviderOf(dev).(*device).receivers {
		if r.idle() {
			return false
		}
	}
	return true
}

// Sleeping returns the number of goroutines that wait for an event of a CQ.
func Sleeping(p *verbs.CQ) int {
	c := verbs.ProviderOf(p).(*cq)
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sleepers)
}

// PortSleeps reports whether the goroutine of a receiver sleeps because another goroutine leads.
func PortSleeps(dev *verbs.Device) bool {
	return slices.ContainsFunc(verbs.ProviderOf(dev).(*device).receivers, func(r *receiver) bool {
		r.Lock()
		defer r.Unlock()
		return r.Rests()
	})
}

// TimerSet reports whether a device waits for a time.
func TimerSet(dev *verbs.Device) bool {
	_, set := verbs.ProviderOf(dev).(*device).engine.Deadline()
	return set
}

// countedLink counts the waits for packets.
type countedLink struct {
	link.Link
	waits *atomic.Int64
}

func (l countedLink) Receive(in *link.Ingress) error {
	l.waits.Add(1)
	return l.Link.Receive(in)
}

// CountWork counts from now on how often a device without traffic begins to wait for packets, and how often its timer rings.
func CountWork(dev *verbs.Device) *atomic.Int64 {
	d, work := verbs.ProviderOf(dev).(*device), new(atomic.Int64)
	for _, r := range d.receivers {
		r.lock()
		r.link = countedLink{r.link, work}
		r.unlock()
		r.Call()
	}
	d.alarm.mu.Lock()
	defer d.alarm.mu.Unlock()
	d.alarm.timer.Stop()
	d.alarm.timer = time.AfterFunc(testkit.Moment, func() { work.Add(1); d.alarm.ring() })
	d.alarm.timer.Stop()
	return work
}

// NeverLook keeps the ports' goroutines of devices that are opened from now on from looking whether they must receive
// again. They do so only if another goroutine calls them.
func NeverLook(tb testing.TB) {
	before := standByTick
	standByTick = 1000 * time.Hour
	tb.Cleanup(func() { standByTick = before })
}

// SetStream makes the device consider its traffic a stream, or not.
func SetStream(d *verbs.Device, stream bool) {
	verbs.ProviderOf(d).(*device).traffic.stream.Store(stream)
}

// LockCapture makes the device wait with each packet that it captures. Calling unlock ends that.
func LockCapture(dev *verbs.Device) (unlock func()) {
	c := &verbs.ProviderOf(dev).(*device).capture
	c.mu.Lock()
	return c.mu.Unlock
}

// Sending makes the device behave as if a goroutine had taken packets from the engine but not
// sent them yet. Calling sent ends that.
func Sending(dev *verbs.Device) (sent func()) {
	d := verbs.ProviderOf(dev).(*device)
	d.sending.RLock()
	return d.sending.RUnlock
}

// Receive makes the caller receive where the packets for a CQ's queue pairs arrive. receive waits for
// packets and gives them to the engine, and leaves their answers. Calling stop ends that.
func Receive(p *verbs.CQ) (receive func(), stop func()) {
	r := verbs.ProviderOf(p).(*cq).home.Load()
	r.lock()
	return func() { _ = r.take() }, func() {
		r.unlock()
		r.Call()
	}
}

// take waits for packets and passes them to the engine.
func (r *receiver) take() error {
	err := r.await(r.in)
	if err == nil {
		r.process()
	}
	return err
}

// SetVectors makes devices that are opened from now on have n completion vectors.
func SetVectors(tb testing.TB, n int) {
	before := vectorsOfHost
	vectorsOfHost = func() int { return n }
	tb.Cleanup(func() { vectorsOfHost = before })
}

// oneVector says why a device may have one completion vector.
const oneVector = "one completion vector: one processor, a receive buffer below 1 MiB, or no sockets that share an address"

// ReceivedBySocket returns how many packets each socket of a device has received.
func ReceivedBySocket(dev *verbs.Device) (n []uint64) {
	for _, r := range verbs.ProviderOf(dev).(*device).receivers {
		n = append(n, r.link.Counters()[link.ReceivedPackets])
	}
	return n
}

// HoldReceivers keeps the device from receiving until release is called.
func HoldReceivers(dev *verbs.Device) (release func()) {
	all := verbs.ProviderOf(dev).(*device).receivers
	for _, r := range all {
		r.lock()
	}
	return func() {
		for _, r := range all {
			r.unlock()
			r.Call()
		}
	}
}

// MostPerPost is the most that a posting goroutine sends itself, in bytes.
const MostPerPost = posterRounds * outboxBytes

// WithoutRoom makes UC and UD send without regard to the receiver. dev must have no queue pairs.
func WithoutRoom(dev *verbs.Device) {
	for _, p := range verbs.ProviderOf(dev).(*device).ports {
		p.room.Close()
	}
}

// SentByPoster returns how many bytes a goroutine that posts sends itself, and whether it leaves some to
// another goroutine.
func SentByPoster(dev *verbs.Device, post func()) (bytes uint64, rest bool) {
	d := verbs.ProviderOf(dev).(*device)
	sent := func() uint64 { return SentBytes(dev) }
	for i := range d.postDrivers {
		d.postDrivers[i].mu.Lock() // so post itself sends nothing
	}
	post()
	for i := range d.postDrivers {
		d.postDrivers[i].mu.Unlock()
	}
	before := sent()
	rest = d.postDrivers[0].drive(posterRounds)
	return sent() - before, rest
}

// SentBytes returns how many bytes a device has sent.
func SentBytes(dev *verbs.Device) (n uint64) {
	for _, r := range verbs.ProviderOf(dev).(*device).receivers {
		n += r.link.Counters()[link.SentBytes]
	}
	return n
}

// smallBuffer opens soft devices on loopback with the receive buffer that a user gets who may not ask for
// more: Linux's default of net.core.rmem_max.
type smallBuffer struct{}

// SmallBufferName is the name of a device with a receive buffer of SmallBufferBytes.
const (
	SmallBufferName  = "small0"
	SmallBufferBytes = 212_992
)

func init() { verbs.Register(smallBuffer{}) }

func (smallBuffer) Name() string                         { return "softroce/small" }
func (smallBuffer) Devices() ([]verbs.DeviceInfo, error) { return nil, nil }

func (smallBuffer) Open(name string) (verbs.ProviderDevice, error) {
	if name != SmallBufferName {
		return nil, syscall.ENODEV
	}
	l, err := link.OpenLoopback(link.Config{ReceiveBuffer: SmallBufferBytes})
	if err != nil {
		return nil, err
	}
	return newDevice(name, []*port{{link: l, gidIndex: 1}}), nil
}

// fourVectors opens soft devices on loopback with four completion vectors.
type fourVectors struct{ smallBuffer }

// FourVectorsName is the name of a device with four completion vectors.
const FourVectorsName = "four0"

func init() { verbs.Register(fourVectors{}) }

func (fourVectors) Name() string { return "softroce/four" }

func (fourVectors) Open(name string) (verbs.ProviderDevice, error) {
	if name != FourVectorsName {
		return nil, syscall.ENODEV
	}
	l, err := link.OpenLoopback(link.Config{})
	if err != nil {
		return nil, err
	}
	before := vectorsOfHost
	defer func() { vectorsOfHost = before }()
	vectorsOfHost = func() int { return 4 }
	d := newDevice(name, []*port{{link: l, gidIndex: 1}})
	if d.vectors == 1 {
		d.Close()
		return nil, errors.New(oneVector)
	}
	return d, nil
}

// twoPorts opens soft devices with two addresses.
type twoPorts struct{ smallBuffer }

// TwoPortsName is the name of a device with two addresses, at GID indexes 1 and 2.
const TwoPortsName = "two0"

func init() { verbs.Register(twoPorts{}) }

func (twoPorts) Name() string { return "softroce/two" }

func (twoPorts) Open(name string) (verbs.ProviderDevice, error) {
	if name != TwoPortsName {
		return nil, syscall.ENODEV
	}
	var ports []*port
	for i := range 2 {
		l, err := link.OpenLoopback(link.Config{})
		if err != nil {
			closePorts(ports)
			return nil, err
		}
		ports = append(ports, &port{link: l, gidIndex: i + 1})
	}
	return newDevice(name, ports), nil
}

// fullLink is a link that has no room until it gets some or is closed.
type fullLink struct {
	link.Link
	room, closed chan struct{}
}

func (l *fullLink) Send(e *link.Egress) error {
	select {
	case <-l.closed:
	case <-l.room:
	default:
		return nil
	}
	return l.Link.Send(e)
}

func (l *fullLink) AwaitRoom(uint16) error {
	select {
	case <-l.room:
		return nil
	case <-l.closed:
		return net.ErrClosed
	}
}

func (l *fullLink) Close() error {
	close(l.closed)
	return l.Link.Close()
}

// Fill makes the sockets of a device have no room until room is called. There must be no packets on their way.
func Fill(dev *verbs.Device) (room func()) {
	d, more := verbs.ProviderOf(dev).(*device), make(chan struct{})
	d.sending.Lock()
	defer d.sending.Unlock()
	for _, p := range d.ports {
		p.link = &fullLink{p.link, more, make(chan struct{})}
		p.outlets.Range(func(_, x any) bool {
			x.(*outlet).link = p.link
			return true
		})
	}
	return func() { close(more) }
}

// PacketsWait reports whether packets of a device wait for room.
func PacketsWait(dev *verbs.Device) bool { return verbs.ProviderOf(dev).(*device).packetsWait() }
