// Driving the engine: sending and the timer.
//
//  1. A goroutine that posts sends the resulting packets at once (kick). It does not hand
//     them to another goroutine.
//  2. Whoever receives sends what follows (receive.go).
//  3. A timer retransmits. It is armed only while packets are in flight, so nothing runs while nothing is.
//  4. None of these waits for room at a socket (outlets.go).
//
// Each receiver has its own driver. Goroutines that post to queue pairs of one completion vector share a driver, under
// driver.mu; the timer uses the first of these. Sending takes device.sending for reading.

package softroce

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
)

// Limits of one round of sending.
const (
	outboxBytes  = 512 << 10
	outboxBursts = 64
)

// posterRounds is the number of rounds after which a posting goroutine returns to its program.
const posterRounds = 4

// driver sends the packets that the engine has ready. Only one goroutine uses it at a time.
type driver struct {
	d      *device
	outbox *transport.Outbox
	egress []link.Egress // by port

	mu      sync.Mutex  // held while a post driver sends
	pending atomic.Bool // the engine was given something since the last round began
}

func (w *driver) init(d *device) {
	w.d = d
	w.egress = make([]link.Egress, len(d.ports))
}

// send sends until the engine has nothing more to send, or for the given number of rounds.
// It returns how many rounds are left, and whether there may be more to send.
func (w *driver) send(rounds int) (left int, more bool) {
	defer w.d.alarm.arm()
	if w.outbox == nil { // some drivers never send
		w.outbox = transport.NewOutbox(make([]byte, outboxBytes), outboxBursts, link.MaxBurstPackets)
	}
	for rounds > 0 {
		rounds--
		if !w.round() {
			return rounds, false
		}
	}
	w.d.engine.Release(w.outbox)
	return 0, true
}

// round sends what the engine has now, and returns false if it had nothing.
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
		to := link.Destination{Addr: b.Path.Dst, TOS: b.Path.TrafficClass, TTL: b.Path.HopLimit, Source: b.Path.Source}
		w.egress[b.Path.Link.(*port).index].Add(to, b.Data, b.Segment)
	}
	w.d.traffic.moved(0, bytes)
	for i := range w.egress {
		if w.egress[i].Packets() > 0 {
			// To the protocol, a packet that cannot be sent is a lost packet: it is
			// sent again, and finally reported as RETRY_EXC_ERR.
			_ = w.d.ports[i].link.Send(&w.egress[i])
			if w.egress[i].Packets() > 0 {
				w.keep(w.d.ports[i], &w.egress[i], bursts)
			}
		}
	}
	for i := range bursts {
		if p := bursts[i].Path; p.Link.(*port).room != nil {
			p.Link.(*port).room.Sent(p.Dst)
		}
	}
	return true
}

// kick sends the packets that follow from the caller's last call of the engine, for a queue pair. If another
// goroutine is in kick already for its completion vector, that goroutine sends them. After some rounds another goroutine
// sends the rest, because the caller's program waits.
func (d *device) kick(qpn uint32) {
	w := &d.postDrivers[qpn%uint32(len(d.postDrivers))]
	if w.drive(posterRounds) {
		go w.drive(math.MaxInt)
	}
}

// waitSent sends what must leave before an object ends. owing returns a queue pair that has some of it. If another
// goroutine is sending that, waitSent waits, but not longer than 100 ms.
func (d *device) waitSent(owing func() *transport.QP) {
	const limit, pause = 100 * time.Millisecond, 100 * time.Microsecond
	for end := time.Now().Add(limit); ; time.Sleep(pause) {
		qp := owing()
		if qp == nil {
			return
		}
		d.kick(qp.QPN())
		if owing() == nil || time.Now().After(end) {
			return
		}
	}
}

// drive sends the engine's packets in at most rounds rounds, however much others post meanwhile. It returns
// true if there may be more.
func (w *driver) drive(rounds int) (more bool) {
	w.pending.Store(true)
	for !more && w.pending.Load() && w.mu.TryLock() {
		if rounds > 0 {
			w.pending.Store(false)
			rounds, more = w.send(rounds)
		} else {
			more = true
		}
		w.mu.Unlock()
	}
	return more
}

// alarm is the timer of the engine's deadline.
type alarm struct {
	d     *device
	armed atomic.Int64 // the time it is armed for; math.MaxInt64 if it is not armed

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

// arm makes the timer fire no later than the engine's deadline. It must be called after
// everything that may have moved the deadline.
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
	a.d.kick(0)
	a.arm()
}

func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.timer.Stop()
}
