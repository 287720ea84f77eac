// Receiving, by the port's own goroutine or by a goroutine that waits for a completion.
//
//  1. Each port has a goroutine that receives packets, passes them to the engine, and sends
//     what follows: acknowledgements, responses and the next packets of the window. On hosts with four processors or more a port
//     may have several goroutines (shards.go).
//  2. Waking the goroutine that waits for a completion often costs more than everything else. So
//     if only one goroutine waits on the device, it takes the port. It receives until its CQ has a
//     completion. We say that it leads (lead.go).
//  3. When a leader stops, nobody receives, because the leader will probably wait again soon. The
//     port's goroutine checks every millisecond. It receives again if nobody has led since its last
//     check. If one leader leads for longer than a millisecond, the port's goroutine sleeps until
//     the leader stops.
//  4. A goroutine that polls for some time receives, too, without waiting (spin.go).
//
// The goroutine that holds receiver.mu receives. docs/design/waiting.md describes the
// hand-over.

package softroce

import (
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/ctxwatch"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	receiverRounds = 4 // rounds of sending before the next receive
	receiveTries   = 100
	receivePause   = 10 * time.Millisecond
)

// standByTick is the time between two looks of a port's goroutine that stands by. Tests replace it.
var standByTick = time.Millisecond

// receiver receives with one link.
type receiver struct {
	d       *device
	link    link.Link
	shards  *shards       // the receivers of the same address; nil if there are no others
	posters *driver       // sends what receiving leaves to another goroutine; nil if nothing can follow: datagrams to a group
	tick    time.Duration // standByTick
	look    *time.Timer   // standBy's timer; it is kept because standBy runs while messages are handled, and must not allocate

	mu         sync.Mutex // held by the goroutine that receives; guards the fields up to owes
	in         *link.Ingress
	batch      []transport.Datagram
	sender     driver
	watched    [2]ctxwatch.Watch // the contexts of the last leader
	failures   int               // of take in a row
	pollsFirst bool              // a wait may begin with polling; see await.go
	patience   patience
	load       load
	heard      heard
	owes       bool // Drive or DriveOnce received packets and has not answered them yet

	retired atomic.Bool // the port's goroutine must end; see attend_linux.go

	asked      atomic.Int32  // goroutines that want the port; the goroutine that receives must release it
	led        atomic.Uint64 // how often a goroutine has led, or received between two polls
	asleep     atomic.Bool   // the port's goroutine sleeps until the leader stops
	needed     atomic.Bool   // the port's goroutine must take over at once
	unattended atomic.Bool   // a goroutine has led or polled here, and nobody receives now
	call       chan struct{} // wakes the port's goroutine, if it stands by, to check needed

	try     func(*link.Ingress) error // receives without waiting; nil if the link must wait
	spinner atomic.Pointer[cq]        // not nil: goroutines that poll receive, on this CQ last; see spin.go
}

func newReceiver(d *device, l link.Link, posters *driver) *receiver {
	r := &receiver{d: d, link: l, posters: posters, in: link.NewIngress(), heard: heard{buffer: socketBytes(l.Status().ReceiveBuffer)}, tick: standByTick, call: make(chan struct{}, 1), try: link.Trying(l)}
	r.pollsFirst = r.try != nil && mayPoll()
	if posters != nil {
		r.sender.init(d)
	}
	return r
}

// run is the port's goroutine. It returns when the link is closed or the receiver is retired.
func (r *receiver) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spinner.Store(nil) // a goroutine may have polled before this one started
	r.look = time.NewTimer(r.tick)
	defer r.look.Stop()
	for {
		// Loop, because the asking goroutine interrupts only once and may not hold the mutex
		// yet when this goroutine has taken it again.
		for r.asked.Load() > 0 {
			r.mu.Unlock()
			r.standBy()
			r.spinner.Store(nil)
			r.unattended.Store(false)
			r.answer() // what the last leader received but did not answer
		}
		switch err := r.take(); {
		case err == nil:
		case errors.Is(err, link.ErrInterrupted):
			if r.retired.Load() {
				return
			}
			continue
		case errors.Is(err, net.ErrClosed):
			for i := range r.watched {
				r.watched[i].End()
			}
			return
		default:
			if r.failed() {
				return
			}
			continue
		}
		if r.posters == nil {
			continue // leaders do not receive from a group
		}
		if r.d.woke.Swap(false) {
			r.d.lastWoke.Store(r)
		}
		r.answer()
		if r.shards != nil {
			r.shards.look(r)
		}
	}
}

// lock takes the port from the goroutine that receives there.
func (r *receiver) lock() {
	if !r.mu.TryLock() {
		r.asked.Add(1)
		r.link.Interrupt()
		r.mu.Lock()
		r.asked.Add(-1)
	}
}

// standBy waits until nobody receives but somebody must. It returns with the mutex held.
func (r *receiver) standBy() {
	r.look.Reset(r.tick)
	defer r.look.Stop()
	for !r.needed.Swap(false) {
		before := r.led.Load()
		select {
		case <-r.look.C:
			r.look.Reset(r.tick)
		case <-r.call:
			continue
		}
		if r.led.Load() != before {
			continue
		}
		if r.mu.TryLock() {
			return
		}
		// A goroutine leads and has led for long: sleep until it stops. The leader wakes this
		// goroutine if it sees asleep. If asleep was set too late, TryLock succeeds.
		r.asleep.Store(true)
		if !r.mu.TryLock() {
			<-r.call
		} else {
			r.mu.Unlock()
		}
		r.asleep.Store(false)
	}
	r.mu.Lock()
}

// takeOver makes the port's goroutine receive at once, unless another goroutine does.
func (r *receiver) takeOver() {
	r.needed.Store(true)
	r.wake()
}

// attendAll makes the ports' goroutines receive where nobody does, but for one port.
func (d *device) attendAll(but *receiver) {
	for _, r := range d.receivers {
		if r != but && r.unattended.Load() && r.unattended.Swap(false) {
			r.takeOver()
		}
	}
}

// wake makes the port's goroutine check its conditions, if it stands by.
func (r *receiver) wake() {
	select {
	case r.call <- struct{}{}:
	default:
	}
}

// take waits for packets and passes them to the engine.
func (r *receiver) take() error {
	err := r.await()
	r.d.leader.CompareAndSwap(r, nil) // so that a leader does not interrupt itself
	if err == nil {
		r.process()
	}
	return err
}

// process passes the received packets to the engine.
func (r *receiver) process() {
	r.failures = 0
	r.batch = r.batch[:0]
	bytes := 0
	for i := range r.in.Packets {
		q := &r.in.Packets[i]
		bytes += len(q.Data)
		r.batch = append(r.batch, transport.Datagram{Data: q.Data, Src: q.Src, Dst: q.Dst, TOS: q.TOS, TTL: q.TTL})
	}
	now := r.d.now()
	r.d.engine.Receive(now, r.batch)
	r.heard.received(bytes, now, r.in.Emptied)
	r.in.Emptied = false
	r.d.traffic.moved(bytes, 0)
}

// failed counts a failure of take and pauses: the system lacks some resource, perhaps only for a
// moment. After receiveTries failures in a row it returns true.
func (r *receiver) failed() bool {
	r.countFailure()
	time.Sleep(receivePause)
	return r.failures >= receiveTries
}

// countFailure reports that the device has failed after receiveTries failures in a row.
func (r *receiver) countFailure() {
	if r.failures++; r.failures == receiveTries {
		r.d.events.Put(verbs.AsyncEvent{Type: verbs.EventDeviceFatal})
	}
}

// answer sends what follows from the received packets.
func (r *receiver) answer() {
	if _, more := r.sender.send(receiverRounds); more {
		go r.posters.drive(math.MaxInt) // another goroutine sends the rest, so that this one can receive
	}
}

// settle sends the answer that Drive or DriveOnce left.
func (r *receiver) settle() {
	if r.owes {
		r.owes = false
		r.answer()
	}
}
