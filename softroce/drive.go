// Driving the engine: who sends, who receives, who watches the time.
//
//  1. a goroutine that posts sends what follows from it at once (kick): there is
//     no handing over to another goroutine
//  2. one goroutine a link receives, and sends what follows: acknowledgements,
//     answers, the next window (receive.go, lead.go)
//  3. a timer, armed only while something is in flight, retransmits
//
// So nothing runs while nothing is in flight.

package softroce

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
)

// What one round of sending holds at most.
const (
	outboxBytes  = 512 << 10
	outboxBursts = 64
)

// driver sends what the engine has to send. One goroutine at a time uses it.
type driver struct {
	d      *device
	outbox *transport.Outbox
	egress []link.Egress // by GID index

	mu      sync.Mutex  // of the posters' driver: held while it sends
	pending atomic.Bool // somebody has given the engine something since
}

func (w *driver) init(d *device) {
	w.d = d
	w.outbox = transport.NewOutbox(make([]byte, outboxBytes), outboxBursts, link.MaxBurstPackets)
	w.egress = make([]link.Egress, len(d.ports))
}

// send sends until the engine has nothing more to send, or for so many rounds, and
// says whether there may be more.
func (w *driver) send(rounds int) (more bool) {
	defer w.d.alarm.arm()
	for range rounds {
		if !w.round() {
			return false
		}
	}
	w.d.engine.Release(w.outbox)
	return true
}

// round sends what the engine has now, and says whether that was anything.
func (w *driver) round() bool {
	w.d.sending.RLock()
	defer w.d.sending.RUnlock()
	bursts := w.d.engine.Transmit(w.d.now(), w.outbox)
	if len(bursts) == 0 {
		return false
	}
	bytes := 0
	for i := range bursts {
		b := &bursts[i]
		bytes += len(b.Data)
		to := link.Destination{Addr: b.Path.Dst, TOS: b.Path.TrafficClass, TTL: b.Path.HopLimit}
		w.egress[b.Path.Link.(*port).index].Add(to, b.Data, b.Segment)
	}
	w.d.traffic.sent(bytes)
	for i := range w.egress {
		if w.egress[i].Packets() > 0 {
			// What cannot be sent is lost on the way, as far as the protocol
			// goes: it is sent again, and in the end reported as RETRY_EXC_ERR.
			_ = w.d.ports[i].link.Send(&w.egress[i])
		}
	}
	return true
}

// kick sends what the caller has just given the engine. If another poster is
// sending already, that one sees it through.
func (d *device) kick() {
	w := &d.posters
	w.pending.Store(true)
	for w.pending.Load() && w.mu.TryLock() {
		w.pending.Store(false)
		w.send(math.MaxInt)
		w.mu.Unlock()
	}
}

// alarm is the engine's deadline as a timer.
type alarm struct {
	d     *device
	armed atomic.Int64 // for when; math.MaxInt64 if it is not

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (a *alarm) init(d *device) {
	a.d = d
	a.armed.Store(math.MaxInt64)
	a.timer = time.AfterFunc(time.Hour, a.ring)
	a.timer.Stop()
}

// arm sees to it that the timer rings no later than the engine's deadline. It is
// called after everything that may have moved the deadline.
func (a *alarm) arm() {
	at, ok := a.d.engine.Deadline()
	if !ok || int64(at) >= a.armed.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped || int64(at) >= a.armed.Load() {
		return
	}
	a.armed.Store(int64(at))
	a.timer.Reset(at - a.d.now())
}

func (a *alarm) ring() {
	a.armed.Store(math.MaxInt64)
	a.d.engine.Advance(a.d.now())
	a.d.kick()
	a.arm()
}

func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.timer.Stop()
}
