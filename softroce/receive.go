// Receiving: by a goroutine of the port's own, or by the one that waits.
//
//  1. Each port has a goroutine that receives, feeds the engine, and sends what
//     follows: acknowledgements, answers, the next window.
//  2. Where messages are few and small, waking the goroutine that waits for their
//     completion costs more than all the rest. So if traffic is light and one
//     goroutine alone waits on the device, it takes the port and receives itself,
//     until its CQ has something: it leads (lead.go).
//  3. When a leader stops, nobody receives, because the leader is likely to wait again
//     soon. The port's goroutine looks every millisecond, and receives if nobody has led
//     since. It sleeps while a leader leads for longer than that.
//
// Whoever holds the receiver's mutex receives.

package softroce

import (
	"net"
	"runtime"
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
	receiverRounds = 4 // of sending, before the next receiving
	receiveTries   = 100
	receivePause   = 10 * time.Millisecond

	standByTick = time.Millisecond
)

// receiver receives for one port.
type receiver struct {
	d *device
	p *port

	mu      sync.Mutex // held by whoever receives, for all up to watched
	in      *link.Ingress
	batch   []transport.Datagram
	sender  driver
	watched [2]ctxwatch.Watch // the contexts of who led last

	asked  atomic.Bool   // somebody wants the port: its goroutine lets go
	led    atomic.Uint64 // how many times somebody has led
	asleep atomic.Bool   // the port's goroutine sleeps until a leader is gone
	needed atomic.Bool   // the port's goroutine is to take over at once
	call   chan struct{} // … and to look whether that is so
}

func newReceiver(d *device, p *port) *receiver {
	r := &receiver{d: d, p: p, in: link.NewIngress(), call: make(chan struct{}, 1)}
	if p.index != groupIndex {
		r.sender.init(d)
	}
	return r
}

// run is the port's goroutine, until the link is closed.
func (r *receiver) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for failures := 0; ; {
		// Until nobody asks: who does may not have come to the mutex when this
		// goroutine had it again, and has interrupted only once.
		for r.asked.Load() {
			r.mu.Unlock()
			r.standBy()
			r.answer() // what the last leader took and did not answer
		}
		switch err := r.take(); {
		case err == nil:
			failures = 0
		case errors.Is(err, link.ErrInterrupted):
			continue
		case errors.Is(err, net.ErrClosed):
			for i := range r.watched {
				r.watched[i].End()
			}
			return
		default:
			// The system is short of something, perhaps for a moment only.
			if failures++; failures > receiveTries {
				r.d.events.put(verbs.AsyncEvent{Type: verbs.EventDeviceFatal})
				return
			}
			time.Sleep(receivePause)
			continue
		}
		if r.p.index == groupIndex {
			continue // datagrams are not answered, and a leader receives from a port
		}
		if r.d.woke.Swap(false) {
			r.d.lastWoke.Store(r)
			// Whoever was woken goes first: what it answers is then sent by the
			// same system call as the acknowledgement.
			runtime.Gosched()
		}
		r.answer()
	}
}

// standBy returns, with the mutex held, when nobody receives and somebody must.
func (r *receiver) standBy() {
	tick := time.NewTimer(standByTick)
	defer tick.Stop()
	for !r.needed.Swap(false) {
		before := r.led.Load()
		select {
		case <-tick.C:
			tick.Reset(standByTick)
		case <-r.call:
			continue
		}
		if r.led.Load() != before {
			continue
		}
		if r.mu.TryLock() {
			return
		}
		// Somebody leads, and has for long: nothing is to be done until it leaves,
		// which it says if asleep was set in time to be seen.
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

// takeOver makes the port's goroutine receive at once, if nobody else does.
func (r *receiver) takeOver() {
	r.needed.Store(true)
	r.wake()
}

// wake makes the port's goroutine, if it stands by, look what is asked of it.
func (r *receiver) wake() {
	select {
	case r.call <- struct{}{}:
	default:
	}
}

// take waits for packets and feeds the engine with them.
func (r *receiver) take() error {
	err := r.p.link.Receive(r.in)
	r.d.leader.CompareAndSwap(r, nil) // a leader does not interrupt itself
	if err != nil {
		return err
	}
	r.batch = r.batch[:0]
	bytes := 0
	for i := range r.in.Packets {
		q := &r.in.Packets[i]
		bytes += len(q.Data)
		r.batch = append(r.batch, transport.Datagram{Data: q.Data, Src: q.Src, Dst: q.Dst, TOS: q.TOS, TTL: q.TTL})
	}
	r.d.traffic.received(bytes)
	r.d.engine.Receive(r.d.now(), r.batch)
	return nil
}

// answer sends what follows from what was taken.
func (r *receiver) answer() {
	if r.sender.send(receiverRounds) {
		go r.d.kick() // a long answer must not keep this goroutine from receiving
	}
}
