// Loops over a CQ's completions, and waits for solicited completions.

package verbstest

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs"
)

var cqLoopCases = []Case{
	{"cq", "a loop over completions, all in order", func(e *Env) {
		a, b := e.pair(wiring{cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 300, MaxSendSGE: 1, MaxRecvSGE: 1}})
		const messages = 300
		for i := range messages {
			b.receive(uint64(i), b.sge(0, 8)...)
		}
		var sender sync.WaitGroup
		defer sender.Wait()
		sender.Go(func() {
			for i := range messages {
				wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: a.sge(0, 8)}
				if err := a.qp.PostSend([]verbs.SendWR{wr}); err != nil {
					e.Errorf("send %d: %v", i, err)
					return
				}
				if _, err := a.send.Wait(e.Ctx, make([]verbs.WC, 1)); err != nil {
					e.Errorf("send %d: %v", i, err)
					return
				}
			}
		})
		next := uint64(0)
		for wc, err := range b.recv.Completions(e.Ctx) {
			e.ok(err, "the loop")
			e.success(wc, "a receive")
			e.check(wc.ID == next, "completion %d is of receive %d", next, wc.ID)
			if next++; next == messages {
				break
			}
		}
	}},
	{"cq", "a loop gets what the loop before it left", func(e *Env) {
		x, n := e.flusher(20)
		e.ok(x.machine.ToError(), "ToError")
		e.quiet(x.send, "the send queue") // then all are flushed
		next := uint64(0)
		take := func(wc verbs.WC) {
			e.check(wc.ID == next, "completion %d is of request %d", next, wc.ID)
			next++
		}
		for range 3 {
			for wc, err := range x.recv.Completions(e.Ctx) {
				e.ok(err, "the loop")
				take(wc)
				break
			}
		}
		take(x.received(1)[0])
		for _, wc := range x.received(6) {
			take(wc)
		}
		for wc, err := range x.recv.Completions(e.Ctx) {
			e.ok(err, "the loop")
			if take(wc); next == uint64(n) {
				break
			}
		}
		e.quiet(x.recv, "an emptied CQ")
	}},
	{"cq", "what a loop left wakes a waiter", func(e *Env) {
		const n = 5
		a, b := e.rc()
		for range 20 { // then the software device's waiters receive packets themselves
			works(a, b)
		}
		b.receives(n, 0, 64)
		for range n {
			a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
			a.done()
		}
		e.quiet(b.send, "the receiver's send CQ") // likely, the receives have completed then
		ctx, cancel := e.patient()
		defer cancel()
		var waiter sync.WaitGroup
		for _, err := range b.recv.Completions(e.Ctx) {
			e.ok(err, "the loop")
			waiter.Go(func() {
				for got := 0; got < n-1; {
					k, err := b.recv.Wait(ctx, make([]verbs.WC, 2*n))
					if got += k; err != nil || got > n-1 {
						e.Errorf("got %d of %d completions: %v", got, n-1, err)
						return
					}
				}
			})
			time.Sleep(20 * time.Millisecond) // likely, the waiter sleeps then
			break
		}
		waiter.Wait()
	}},
	{"cq", "a loop ends with its context", func(e *Env) {
		ctx, cancel := context.WithCancelCause(e.Ctx)
		why := errors.New("enough")
		time.AfterFunc(testkit.Moment, func() { cancel(why) })
		turns := 0
		for _, err := range e.cq(4).Completions(ctx) {
			e.fails(err, "the loop", why)
			turns++
		}
		e.check(turns == 1, "%d iterations, want 1", turns)
	}},
	{"cq", "a loop ends with Close", func(e *Env) {
		cq := e.cq(4)
		time.AfterFunc(testkit.Moment, func() {
			if err := cq.Close(); err != nil {
				e.Errorf("%v", err)
			}
		})
		turns := 0
		for _, err := range cq.Completions(e.Ctx) {
			e.fails(err, "the loop", net.ErrClosed)
			turns++
		}
		e.check(turns == 1, "%d iterations, want 1", turns)
	}},
	{"cq", "four loops share a CQ", func(e *Env) {
		x, n := e.flusher(32)
		ctx, cancel := context.WithCancel(e.Ctx)
		defer cancel()
		var all sync.WaitGroup
		var mu sync.Mutex
		seen := make(map[uint64]bool)
		for range 4 {
			all.Go(func() {
				for wc, err := range x.recv.Completions(ctx) {
					if err != nil {
						e.fails(err, "the loop", context.Canceled)
						return
					}
					mu.Lock()
					e.check(!seen[wc.ID], "completion %d was returned twice", wc.ID)
					if seen[wc.ID] = true; len(seen) == n {
						cancel()
					}
					mu.Unlock()
				}
			})
		}
		e.ok(x.machine.ToError(), "ToError")
		all.Wait()
		e.check(len(seen) == n, "%d of %d completions", len(seen), n)
	}},

	{"cq", "either of two contexts ends a wait", func(e *Env) {
		a, b := e.rc()
		for range 20 { // then the software device's waiters receive packets themselves
			works(a, b)
		}
		for _, second := range []bool{false, true} {
			ctx, cancel := context.WithCancelCause(e.Ctx)
			why := errors.New("enough")
			one, other := ctx, e.Ctx
			if second {
				one, other = other, one
			}
			time.AfterFunc(testkit.Moment, func() { cancel(why) })
			_, err := b.recv.WaitFor(one, make([]verbs.WC, 1), verbs.WaitOptions{Owner: other})
			e.fails(err, "WaitFor", why)
			e.check(errors.Is(err, context.Canceled) == !second, "canceling the second context (%t): %v", second, err)
			cancel(nil)
		}
	}},

	{"cq", "a wait for solicited completions ignores the others", func(e *Env) {
		early := true
		for asleep := testkit.Moment; early && asleep < e.patience/10; asleep *= 2 {
			if early = e.wakesEarly(asleep); e.simulated {
				break
			}
		}
		e.check(!early, "woken by an unsolicited completion")
	}},
	{"cq", "a wait for solicited completions takes those already there", func(e *Env) {
		a, b := e.rc()
		b.receives(1, 0, 64)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		a.done()
		e.quiet(b.send, "the receiver's send CQ") // then the receive has completed
		n, err := b.recv.WaitFor(e.Ctx, make([]verbs.WC, 4), verbs.WaitOptions{Solicited: true})
		e.check(n == 1 && err == nil, "%d, %v", n, err)
		_, err = b.recv.WaitFor(e.soon(), make([]verbs.WC, 4), verbs.WaitOptions{Solicited: true})
		e.fails(err, "WaitFor", context.DeadlineExceeded)
	}},
}

// wakesEarly reports whether an unsolicited completion ends a wait for a solicited one. A solicited completion
// must end the wait.
//
// On a busy host the wait may begin after the completion, which it then takes: so it begins so long before, and
// there are several tries. In real time that finds a device that always wakes early, not one that does so now and then.
// In simulated time one try finds the latter, too.
func (e *Env) wakesEarly(before time.Duration) bool {
	a, b := e.rc()
	b.receives(4, 0, 64)
	woken := make(chan int, 1)
	go func() {
		var wcs [8]verbs.WC
		n, err := b.recv.WaitFor(e.Ctx, wcs[:], verbs.WaitOptions{Solicited: true})
		e.check(err == nil, "WaitFor: %v", err)
		woken <- n
	}()
	time.Sleep(before)
	for range 3 {
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)})
		a.done()
	}
	time.Sleep(quietTime)
	if len(woken) > 0 {
		return true
	}
	a.signaled(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSolicited, SGL: a.sge(0, 8)})
	a.done()
	ctx, cancel := e.patient()
	defer cancel()
	select {
	case n := <-woken:
		e.check(n == 4, "%d completions, want 4", n)
	case <-ctx.Done():
		e.Errorf("not woken by a solicited completion")
		e.ok(b.machine.ToError(), "ToError")
	}
	return false
}
