// Leading: a goroutine that waits for a completion receives packets itself; see receive.go for the
// reason. The poller wakes this goroutine directly, and no other goroutine must be woken.
//
// Six other things end its wait, and each interrupts the link: a completion made by a posting
// goroutine or by the timer; the end of its context; Close; a second waiting goroutine; a goroutine
// that polls; a switch of shards.go. Each of them sets its condition first and then interrupts. A leader publishes itself in
// device.leader first and then checks the conditions. So no interrupt is missed.

package softroce

import (
	"context"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
)

// traffic distinguishes light traffic from heavy. Under heavy traffic the port's goroutine
// should receive, so that the program can do its own work meanwhile. Traffic is light if a goroutine gets a
// completion often enough: each completion that the port's goroutine receives for another one costs a switch.
// However much is sent, what comes back is little.
type traffic struct {
	streams
	lightRounds atomic.Int32
	bulk        atomic.Bool // the last round sent more than a short message
	attended    bool        // for the threads of attend_linux.go, only tiny messages are light, sent or received
}

const (
	bulkSend     = 80 << 10   // more than a message of 64 KiB and its headers
	lightReceive = 1280 << 10 // the most that light traffic receives before a completion: a message of 1 MiB, with some room
	tinyBytes    = 1 << 10    // a receive of so little is light, however much came before
	lightEnough  = 8          // light rounds of receiving in a row before traffic counts as light
)

// sent notes that a round sent bytes.
func (t *traffic) sent(bytes int) {
	t.moved(0, bytes)
	t.bulk.Store(bytes > bulkSend)
	if t.attended && bytes > tinyBytes {
		t.lightRounds.Store(0)
	}
}

// received notes a receive of bytes, that sinceWake bytes have come since a completion last woke a goroutine, and
// whether one has come with this receive. Without one, the receive says nothing yet: it may be part of a long message.
func (t *traffic) received(bytes, sinceWake int, completed bool) {
	t.moved(bytes, 0)
	most := lightReceive
	if t.attended {
		most = tinyBytes
	}
	if n := t.lightRounds.Load(); bytes > tinyBytes && sinceWake > most {
		t.lightRounds.Store(0)
	} else if n < lightEnough && (bytes <= tinyBytes || completed) {
		t.lightRounds.Store(n + 1)
	}
}

// streams tells whether much is moved, in one direction only: the other one acknowledges.
type streams struct {
	atomic.Bool
	in, out, receives atomic.Int64 // since the last decision
}

const (
	streamBytes    = 1 << 20 // a stream moves so much
	streamReceives = 64      // in so many receives, at most
	streamRatio    = 8       // and so many times as much in one direction
)

// moved notes a receive of bytes, or a round of sending.
func (s *streams) moved(in, out int) {
	i, o, n := s.in.Add(int64(in)), s.out.Add(int64(out)), int64(0)
	if in > 0 {
		n = s.receives.Add(1)
	}
	if much := i+o >= streamBytes; much || n >= streamReceives {
		s.Store(much && max(i, o) >= streamRatio*min(i, o))
		s.in.Store(0)
		s.out.Store(0)
		s.receives.Store(0)
	}
}

func (t *traffic) light() bool { return t.lightRounds.Load() >= lightEnough }

// Sleep waits until the CQ is woken or closed, or until ctx or owner ends.
func (c *cq) Sleep(ctx, owner context.Context, woken, gone <-chan struct{}) {
	d := c.d
	if d.waiting.Add(1) > 1 {
		d.interruptLeader()
	}
	defer d.waiting.Add(-1)
	if c.lead(ctx, owner) {
		return
	}
	d.attendAll(nil)
	select {
	case <-woken:
	case <-ctx.Done():
	case <-owner.Done():
	case <-gone:
	}
}

// SleepMakesProgress returns true: a waiting goroutine receives packets.
func (c *cq) SleepMakesProgress() bool { return true }

// WakeSleeper makes this CQ's leader, if any, check its conditions.
func (c *cq) WakeSleeper() {
	c.woken.Store(true)
	c.d.interruptLeader()
}

// lead receives until the CQ is woken or closed, or until ctx or owner ends. It returns false
// if this goroutine should not lead, or should stop leading before that.
func (c *cq) lead(ctx, owner context.Context) bool {
	d := c.d
	r := d.lastWoke.Load()
	if r == nil || !d.traffic.light() || d.waiting.Load() > 1 || r.spinner.Load() != nil {
		return false
	}
	if s := r.shards; s != nil && s.spread.Load() {
		s.set(false)
		r = d.lastWoke.Load()
	}
	r.lock()
	r.spinner.Store(nil)
	r.led.Add(1)
	r.unattended.Store(false)
	d.attendAll(r)
	r.watched[0].Set(ctx, r.link)
	r.watched[1].Set(owner, r.link)
	r.answer() // what the last leader received but did not answer
	done := c.leadUntilDone(ctx, owner, r)
	asked := r.asked.Load() > 0
	r.mu.Unlock()
	switch {
	case done:
		r.unattended.Store(true)
	case !asked:
		d.traffic.lightRounds.Store(0)
		r.takeOver()
	}
	if r.asleep.Load() {
		r.wake()
	}
	return done
}

// leadUntilDone receives. It returns false if another goroutine should receive instead.
func (c *cq) leadUntilDone(ctx, owner context.Context, r *receiver) bool {
	d := c.d
	for {
		d.leader.Store(r)
		if c.woken.Swap(false) || c.closed.Load() || ctx.Err() != nil || owner.Err() != nil {
			d.leader.Store(nil)
			return true
		}
		if d.waiting.Load() > 1 || !d.traffic.light() || r.asked.Load() > 0 {
			d.leader.Store(nil)
			return false
		}
		err := r.take()
		if err != nil && !errors.Is(err, link.ErrInterrupted) {
			return false
		}
		d.woke.Store(false)
		if c.woken.Swap(false) {
			if d.traffic.bulk.Load() {
				r.answer() // what waited for this ACK need not wait for the program
			}
			return true // otherwise the acknowledgement leaves together with what the program posts next
		}
		r.answer()
	}
}

// interruptLeader makes a leader that waits for packets, if any, check its conditions.
func (d *device) interruptLeader() {
	if r := d.leader.Load(); r != nil {
		r.link.Interrupt()
	}
}
