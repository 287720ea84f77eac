// A goroutine that waits for a completion receives packets itself; docs/design/waiting.md has the reason. One that sleeps leads:
// it waits for packets. One that polls (verbs.WaitOptions.Spin) receives without waiting, so it takes the turn for a moment only.
//
// Both receive at their CQ's home: where the packets of the queue pair arrive that was connected last. Elsewhere the receivers'
// goroutines go on. A completion made by a posting goroutine, by the timer or at another receiver wakes a leader, as do the end of its
// context and Close. While DriveOnce is called again and again, nobody waits for packets at the home.
//
// The answer to a completion leaves with what the program posts next, with the next round or, after two milliseconds at most, by
// the port's goroutine.

package softroce

import (
	"context"
	"net"
	"slices"
	"sync/atomic"

	"github.com/rawverbs/rawverbs/internal/sync/turn"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
)

// traffic says whether a stream is moved: much, in one direction only, while the other one acknowledges. In a stream no goroutine
// polls (await.go), and a thread of C whose polls find nothing sleeps (found_nothing in cabi/shim/wait.c).
type traffic struct {
	stream            atomic.Bool
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
		t.stream.Store(much && max(i, o) >= streamRatio*min(i, o))
		t.in.Store(0)
		t.out.Store(0)
		t.receives.Store(0)
	}
}

// sleeper is a goroutine in Sleep.
type sleeper struct {
	r *receiver
	w *turn.Waiter
}

// Sleep waits until the CQ is woken or closed, or until ctx or owner ends.
func (c *cq) Sleep(ctx, owner context.Context, woken, gone <-chan struct{}) {
	r := c.leads()
	for _, other := range c.d.receivers {
		if other != r && other.idle() {
			other.Call()
		}
	}
	if r == nil {
		select {
		case <-woken:
		case <-ctx.Done():
		case <-owner.Done():
		case <-gone:
		}
		return
	}
	r.Lock()
	me := sleeper{r, r.Borrow()}
	c.enter(me)
	_ = r.Await(ctx, owner, me.w, func() bool {
		select {
		case <-woken:
			return true
		default:
			return c.closed.Load()
		}
	}, func() error { return c.lead(ctx, owner, r) })
	r.Return(me.w)
	r.Unlock()
	if c.leave(me); len(woken) > 0 || c.closed.Load() {
		c.WakeSleeper() // for those who still sleep
	}
}

// leads returns the receiver for a goroutine that waits. It returns nil if threads of C receive.
func (c *cq) leads() *receiver {
	if c.d.standby != nil {
		return nil
	}
	return c.home.Load()
}

// idle reports whether nobody receives.
func (r *receiver) idle() bool {
	r.Lock()
	defer r.Unlock()
	return r.Works(nil)
}

// lead receives once.
func (c *cq) lead(ctx, owner context.Context, r *receiver) error {
	if ctx.Err() != nil || owner.Err() != nil {
		return net.ErrClosed // to end the wait
	}
	r.led.Add(1)
	r.watched[0].Set(ctx, r.link)
	r.watched[1].Set(owner, r.link)
	_ = r.work(c)
	return nil
}

// SleepMakesProgress returns true: a waiting goroutine receives packets.
func (c *cq) SleepMakesProgress() bool { return true }

// WakeSleeper makes the first goroutine that sleeps, or leads, look again.
func (c *cq) WakeSleeper() {
	c.mu.Lock()
	var first sleeper
	if len(c.sleepers) > 0 {
		first = c.sleepers[0]
	}
	c.mu.Unlock()
	if first.r != nil {
		first.r.Lock()
		first.r.Wake(first.w)
		first.r.Unlock()
	}
}

func (c *cq) enter(s sleeper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sleepers = append(c.sleepers, s)
}

func (c *cq) leave(s sleeper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.sleepers, s)
	c.sleepers = slices.Delete(c.sleepers, i, i+1)
}

// Drives returns false if a link must wait for packets, as on a simulated network, and if threads
// of C drive the device.
func (c *cq) Drives() bool { return c.d.canSpin && c.d.standby == nil }

// DriveOnce receives what has arrived for the CQ's queue pairs, and sends what follows. It does not wait for packets. If
// nothing comes, it yields the processor, and after an error of the system it pauses.
func (c *cq) DriveOnce() {
	if r := c.home.Load(); r != nil && !c.closed.Load() {
		c.yields.after(r.receiveFor(c), link.Yield)
	}
}

// receiveFor receives what has arrived at the port, for a goroutine that polls a CQ. It returns true if something
// has arrived. If another goroutine receives at this moment, receiveFor interrupts its wait and returns at once.
func (r *receiver) receiveFor(c *cq) (received bool) {
	if !r.Hold(c.spins) {
		return false
	}
	defer r.Give()
	r.led.Add(1)
	return r.round(c, r.try) == nil
}

// DriveEnd says that the calls of DriveOnce end.
func (c *cq) DriveEnd() {
	if r := c.home.Load(); r != nil {
		r.Free()
	}
}
