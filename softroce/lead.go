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

// traffic says whether much is moved, and whether that is a stream: in one direction only, while the other one acknowledges. In
// a stream nobody polls (await.go), and threads of C that wait sleep (attend_linux.go).
type traffic struct {
	much, stream      atomic.Bool
	in, out, receives atomic.Int64 // since the last decision
}

const (
	muchBytes    = 1 << 20 // so much is much
	muchReceives = 64      // in so many receives, at most
	streamRatio  = 8       // a stream moves so many times as much in one direction
)

// moved notes a receive of bytes, or a round of sending.
func (t *traffic) moved(in, out int) {
	i, o, n := t.in.Add(int64(in)), t.out.Add(int64(out)), int64(0)
	if in > 0 {
		n = t.receives.Add(1)
	}
	if much := i+o >= muchBytes; much || n >= muchReceives {
		t.much.Store(much)
		t.stream.Store(much && max(i, o) >= streamRatio*min(i, o))
		t.in.Store(0)
		t.out.Store(0)
		t.receives.Store(0)
	}
}

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
	if r == nil || d.waiting.Load() > 1 || r.spinner.Load() != nil {
		return false
	}
	if s := r.shards; s != nil {
		if d.traffic.much.Load() {
			return false // several receivers may be better
		}
		if s.spread.Load() {
			s.set(false)
			r = d.lastWoke.Load()
		}
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
		if d.waiting.Load() > 1 || r.asked.Load() > 0 {
			d.leader.Store(nil)
			return false
		}
		err := r.take()
		if err != nil && !errors.Is(err, link.ErrInterrupted) {
			return false
		}
		d.woke.Store(false)
		if c.woken.Swap(false) {
			return true // the acknowledgement leaves together with what the program posts next
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
