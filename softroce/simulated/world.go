// The world: two hosts, one clock, and the events that are due.

package simulated

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

// Host is one of the two hosts.
type Host int

// The hosts.
const (
	Client Host = iota // 10.0.0.1
	Server             // 10.0.0.2
)

// Hosts are both.
var Hosts = [...]Host{Client, Server}

// String returns "client" or "server".
func (h Host) String() string { return [...]string{"client", "server"}[h] }

// Peer returns the other host.
func (h Host) Peer() Host { return 1 - h }

// DeviceName is the name of each host's device.
const DeviceName = "sim0"

// Config configures a World. The zero value is usable.
type Config struct {
	Seed  uint64        // of the queue pair numbers and keys
	Delay time.Duration // from one host to the other; 0 means 10 µs
	MTU   verbs.MTU     // the ports' active MTU; 0 means 1024 bytes
	// Options are those of opening the devices.
	Options verbs.OpenOptions
}

// World is two hosts with a device each, and the wire between them.
type World struct {
	cfg     Config
	now     time.Duration
	devices [2]*device
	packets []*Packet // all that were ever sent, by ID
	flying  []*Packet // those on the wire, in the order of their arrival
	events  []Event
}

// Event is something that a device reported by itself.
type Event struct {
	At   time.Duration
	Host Host
	// Async is an asynchronous event, unless Completion is true.
	Async verbs.AsyncEvent
	// Completion: the armed CQ in Async.CQ has reported a completion event.
	Completion bool
	// The device has moved the queue pair QPN to another state by itself, unless From and To are the same.
	QPN      uint32
	From, To qpstate.State
}

// New returns a World at time 0, with both devices open.
func New(cfg Config) (*World, error) {
	if cfg.Delay == 0 {
		cfg.Delay = 10 * time.Microsecond
	}
	if cfg.MTU == 0 {
		cfg.MTU = verbs.MTU1024
	}
	w := &World{cfg: cfg}
	for _, h := range Hosts {
		d := &device{world: w, host: h, name: DeviceName, addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(h) + 1})}
		var seed [32]byte
		binary.LittleEndian.PutUint64(seed[:], cfg.Seed)
		seed[8] = byte(h) + 1
		d.engine = transport.New(transport.Config{Resolve: d.resolve, Rand: rand.NewChaCha8(seed), MTU: cfg.MTU,
			Event: func(e transport.Event) { w.report(d, e) }})
		d.outbox = transport.NewOutbox(make([]byte, packet.MaxPacket), 1, 1) // one packet per Transmit, to know each one's reason
		w.devices[h] = d
	}
	for _, h := range Hosts {
		d := w.devices[h]
		var err error
		if d.dev, err = d.open(cfg.Options); err != nil {
			return nil, errors.WithMessage(err, "simulated device")
		}
	}
	return w, nil
}

func endpoint(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, packet.Port) }

// Device returns a host's device.
func (w *World) Device(h Host) *verbs.Device { return w.devices[h].dev }

// GID returns a host's address.
func (w *World) GID(h Host) verbs.GID { return qpstate.GIDFrom(w.devices[h].addr) }

// SelectiveRepeat reports whether a host's device repairs losses by selective repeat: see SetSelectiveRepeat.
func (w *World) SelectiveRepeat(h Host) bool { return w.devices[h].engine.Reorder() > 0 }

// SetSelectiveRepeat chooses how a host's device repairs losses. With selective repeat its responder keeps the packets
// behind a gap, and its requester sends only the missing packet again, if the peer keeps the others. Without, as a
// new World is, the device does what the standard describes: it drops them, and goes back.
func (w *World) SetSelectiveRepeat(h Host, on bool) {
	packets := 0
	if on {
		packets = reorder
	}
	w.devices[h].engine.SetReorder(packets)
}

// reorder is how many packets a device with selective repeat keeps.
const reorder = 256

// Now returns the time since New.
func (w *World) Now() time.Duration { return w.now }

// Next returns the time of the next event: a packet arrives, or a timer ends. It returns false if
// nothing will happen.
func (w *World) Next() (time.Duration, bool) {
	at, any := time.Duration(0), false
	earlier := func(t time.Duration) {
		if !any || t < at {
			at, any = t, true
		}
	}
	if len(w.flying) > 0 {
		earlier(w.flying[0].Arrives)
	}
	for _, d := range w.devices {
		for _, q := range d.qps {
			if t, running := q.Timer(); running {
				earlier(t)
			}
		}
	}
	return at, any
}

// Step moves the clock to the next event and lets it happen: one packet arrives, or the timers
// that end at that time end. It returns false if nothing will happen.
func (w *World) Step() bool {
	at, any := w.Next()
	if !any {
		return false
	}
	w.now = max(w.now, at)
	if len(w.flying) > 0 && w.flying[0].Arrives <= w.now {
		w.arrive(w.flying[0])
	} else {
		w.expire()
	}
	w.transmit()
	return true
}

// RunUntil lets everything happen up to a time, at most limit events, and moves the clock there.
// It returns false if the limit was reached.
func (w *World) RunUntil(until time.Duration, limit int) bool {
	for {
		at, any := w.Next()
		if !any || at > until {
			w.now = max(w.now, until)
			return true
		}
		if limit--; limit < 0 {
			return false
		}
		w.Step()
	}
}

// expire ends the timers that are due.
func (w *World) expire() {
	for _, d := range w.devices {
		for _, q := range d.qps {
			v := q.Inspect()
			waits := !v.HasDeadline || v.Deadline > w.now
			switch {
			case waits && v.TailProbe <= w.now:
				q.again = Repeat{Kind: AfterProbe}
			case waits:
			case v.WaitsRNR:
				q.again = Repeat{Kind: AfterRNRWait, Packet: q.again.Packet}
			default:
				q.again = Repeat{Kind: AfterTimeout}
			}
		}
		d.engine.Advance(w.now)
	}
}

// transmit puts everything that the devices have to send onto the wire, and records which queue pairs they have moved.
func (w *World) transmit() {
	for _, d := range w.devices {
		for d.engine.Ready() {
			before := d.inspect()
			if bursts := d.engine.Transmit(w.now, d.outbox); len(bursts) > 0 {
				q := d.outbox.Sender().User.(*qp)
				w.send(q, before[q], &bursts[0])
				d.engine.Release(d.outbox) // puts q back on the ready list, if it has more
			}
		}
		for _, q := range d.qps {
			if was := q.state; q.hasMoved() {
				w.events = append(w.events, Event{At: w.now, Host: d.host, QPN: q.QPN(), From: was, To: q.state})
			}
		}
	}
}

func (d *device) inspect() map[*qp]transport.QPView {
	views := make(map[*qp]transport.QPView, len(d.qps))
	for _, q := range d.qps {
		views[q] = q.Inspect()
	}
	return views
}

// report records an engine's event.
func (w *World) report(d *device, e transport.Event) {
	out := verbs.AsyncEvent{Type: e.Type}
	switch {
	case e.QP != nil:
		out.QPN = e.QP.QPN()
	case e.CQ != nil:
		out = verbs.ProviderEvent(e.Type, e.CQ.User.(*cq))
	case e.SRQ != nil:
		out = verbs.ProviderEvent(e.Type, e.SRQ.User.(*srq))
	}
	w.events = append(w.events, Event{At: w.now, Host: d.host, Async: out})
}

// notify records a completion event.
func (w *World) notify(d *device, c *cq) {
	w.events = append(w.events, Event{At: w.now, Host: d.host, Async: verbs.ProviderEvent(0, c), Completion: true})
}

// TakeEvents returns the events since the last call.
func (w *World) TakeEvents() []Event {
	events := w.events
	w.events = nil
	return events
}

// Close closes the devices. The objects made from them must be closed.
func (w *World) Close() error {
	for _, d := range w.devices {
		if err := d.dev.Close(); err != nil {
			return err
		}
	}
	return nil
}
