// Leading: a goroutine that waits for a completion receives meanwhile; receive.go
// says why. The poller wakes it, and it wakes nobody.
//
// What else ends its wait interrupts the link: a completion that a posting
// goroutine or the timer made, the end of its context, Close, and a second
// goroutine that waits. Each says first what it is about, and interrupts then; a
// leader first says where it is, and looks then; so none is missed.

package softroce

import (
	"context"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
)

// traffic distinguishes light traffic from heavy. Under heavy traffic the port's own
// goroutine should receive, while the program does its own work.
type traffic struct{ lightRounds atomic.Int32 }

const (
	lightBytes  = 1024 // at most, of what is received or sent at once
	lightEnough = 8    // rounds of receiving in a row
)

func (t *traffic) sent(bytes int) {
	if bytes > lightBytes {
		t.lightRounds.Store(0)
	}
}

func (t *traffic) received(bytes int) {
	if n := t.lightRounds.Load(); bytes > lightBytes {
		t.lightRounds.Store(0)
	} else if n < lightEnough {
		t.lightRounds.Store(n + 1)
	}
}

func (t *traffic) light() bool { return t.lightRounds.Load() >= lightEnough }

// Sleep waits until the CQ was woken or closed, or ctx or owner has ended.
func (c *cq) Sleep(ctx, owner context.Context, woken, gone <-chan struct{}) {
	d := c.d
	if d.waiting.Add(1) > 1 {
		d.interruptLeader()
	}
	defer d.waiting.Add(-1)
	if c.lead(ctx, owner) {
		return
	}
	if r := d.unattended.Swap(nil); r != nil {
		r.takeOver()
	}
	select {
	case <-woken:
	case <-ctx.Done():
	case <-owner.Done():
	case <-gone:
	}
}

// SleepMakesProgress returns true: a waiting goroutine receives packets.
func (c *cq) SleepMakesProgress() bool { return true }

// WakeSleeper makes this CQ's leader, if it has one, look at the CQ.
func (c *cq) WakeSleeper() {
	c.woken.Store(true)
	c.d.interruptLeader()
}

// lead receives until the CQ was woken or closed, or ctx or owner has ended; false if
// that is not for this goroutine to do, or not any longer.
func (c *cq) lead(ctx, owner context.Context) bool {
	d := c.d
	r := d.lastWoke.Load()
	if r == nil || !d.traffic.light() || d.waiting.Load() > 1 {
		return false
	}
	if !r.mu.TryLock() {
		r.asked.Store(true)
		r.p.link.Interrupt()
		r.mu.Lock()
		r.asked.Store(false)
	}
	r.led.Add(1)
	if before := d.unattended.Swap(nil); before != nil && before != r {
		before.takeOver()
	}
	r.watched[0].Set(ctx, r.p.link)
	r.watched[1].Set(owner, r.p.link)
	r.answer() // what the last leader took and did not answer
	done := c.leadUntilDone(ctx, owner, r)
	r.mu.Unlock()
	if done {
		d.unattended.Store(r)
	} else {
		d.traffic.lightRounds.Store(0)
		r.takeOver()
	}
	if r.asleep.Load() {
		r.wake()
	}
	return done
}

// leadUntilDone leads; false if somebody else had better go on.
func (c *cq) leadUntilDone(ctx, owner context.Context, r *receiver) bool {
	d := c.d
	for {
		d.leader.Store(r)
		if c.woken.Swap(false) || c.closed.Load() || ctx.Err() != nil || owner.Err() != nil {
			d.leader.Store(nil)
			return true
		}
		if d.waiting.Load() > 1 || !d.traffic.light() {
			d.leader.Store(nil)
			return false
		}
		err := r.take()
		if err != nil && !errors.Is(err, link.ErrInterrupted) {
			return false
		}
		d.woke.Store(false)
		if c.woken.Swap(false) {
			return true // the acknowledgement goes with what the program sends now
		}
		r.answer()
	}
}

// interruptLeader makes the leader, if there is one and it waits for packets, look
// whether it is to go on.
func (d *device) interruptLeader() {
	if r := d.leader.Load(); r != nil {
		r.p.link.Interrupt()
	}
}
