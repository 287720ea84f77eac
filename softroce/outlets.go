// Outlets: packets that wait for room at a port's sockets. Sending never waits, so posters return, receivers receive and
// timers run, however slow the interface is.
//
//  1. A driver that finds no room copies the packets that are left to the outlet of their source port (keep), and fills the
//     outlet. Then the engine builds no more for it. The driver goes on with other outlets.
//  2. A goroutine, which exists only while packets wait, sends them when there is room (drain). It is the same for an attended
//     device: neither the standby thread nor Drive looks for room.
//  3. When all of them are sent, the engine goes on.
//
// Each driver fills its outbox once at most before it finds that an outlet is full. So no more than that waits per driver.

package softroce

import (
	"math"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
)

// outlet is a socket of a port that packets leave from.
type outlet struct {
	transport.Outlet
	d      *device
	link   link.Link
	source uint16

	mu   sync.Mutex
	kept link.Egress // the packets that wait
}

// outlet returns the outlet of a source port.
func (p *port) outlet(d *device, source uint16) *outlet {
	x, ok := p.outlets.Load(source)
	if !ok {
		x, _ = p.outlets.LoadOrStore(source, &outlet{d: d, link: p.link, source: source})
	}
	return x.(*outlet)
}

// keep takes the packets that are left in e, which are of bursts of the driver's outbox.
func (w *driver) keep(p *port, e *link.Egress, bursts []transport.Burst) {
	for i := range bursts {
		if bursts[i].Path.Link == p && e.Has(bursts[i].Data) {
			w.outbox.Wait(i)
		}
	}
	for e.Packets() > 0 {
		p.outlet(w.d, e.Source()).keep(e)
	}
}

func (x *outlet) keep(e *link.Egress) {
	x.mu.Lock()
	defer x.mu.Unlock()
	drains := x.kept.Packets() > 0
	e.MoveTo(&x.kept, x.source)
	x.Fill()
	if !drains {
		go x.drain()
	}
}

// drain sends the packets that wait, and then what follows.
func (x *outlet) drain() {
	for more := true; more; {
		err := x.link.AwaitRoom(x.source)
		if more = x.sendKept(err); err != nil && !errors.Is(err, net.ErrClosed) {
			time.Sleep(receivePause) // the system lacks some resource, perhaps only for a moment
		}
	}
	x.d.postDrivers[0].drive(math.MaxInt)
}

// sendKept sends the packets that wait, or drops them after an error. It returns true if some are left.
func (x *outlet) sendKept(err error) (more bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil {
		_ = x.link.Send(&x.kept) // a packet that cannot be sent is a lost packet; see driver.round
	} else {
		x.kept = link.Egress{}
	}
	if more = x.kept.Packets() > 0; !more {
		x.d.engine.Drained(x.d.now(), &x.Outlet)
	}
	return more
}

// packetsWait reports whether packets wait for room.
func (d *device) packetsWait() (wait bool) {
	for _, p := range d.ports {
		p.outlets.Range(func(_, x any) bool {
			wait = wait || x.(*outlet).Full()
			return !wait
		})
	}
	return wait
}
