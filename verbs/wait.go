// Waiting for completions: poll, arm, poll again, sleep.

package verbs

import (
	"context"
	"net"
	"runtime"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/internal/ctxwatch"
)

// WaitOptions say how [CQ.WaitFor] waits. The zero value waits as [CQ.Wait] does. The fields
// combine.
type WaitOptions struct {
	// Owner is the context of the object that the CQ belongs to, such as a connection. Its
	// end ends the wait, and the error is context.Cause(Owner) as it is. Two contexts save
	// the allocation that one context made from both would cost. nil is none.
	Owner context.Context
	// Ex is filled instead of wcs, which is nil then; for a CQ made with CQInit.Ex.
	Ex []WCEx
	// Spin polls for so long before it sleeps, rounded up to 64 polls, which on libibverbs are
	// one call into C. It is faster than sleeping and uses a whole CPU. Devices of which
	// [CQ.WaitMakesProgress] is true poll once and do not spin.
	Spin time.Duration
	// NoSleep returns 0 completions and no error instead of sleeping. It needs no channel.
	NoSleep bool
	// Solicited sleeps until a completion that the peer marked solicited ([SendSolicited])
	// or that failed (rdma_rxe: solicited alone). Completions of any kind are polled before
	// and after the sleep. While another goroutine waits for any completion, any ends it.
	Solicited bool
}

// Wait polls. If there is nothing it arms, polls again (a completion may have come between)
// and sleeps until an event, ctx's end or Close. It returns at least one completion or an
// error: net.ErrClosed, what Poll and Arm return, or an error that is ctx.Err() and
// context.Cause(ctx) to errors.Is. What has completed is returned even if ctx has ended. A CQ
// without a channel, and an empty wcs, are EINVAL.
//
// Any number of goroutines may wait on one CQ, beside every other call on it; none holds an
// operating system thread. A wait allocates nothing, unless it lasts longer than a millisecond
// with another context than the CQ's last wait: that context is then watched, as by
// context.AfterFunc, until the CQ waits with the next one or is closed. So the end of a context
// may take two milliseconds to end a wait.
//
// Implements: int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only),
// int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context),
// void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
func (cq *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	return cq.WaitFor(ctx, wcs, WaitOptions{})
}

// WaitFor is [CQ.Wait] with options.
func (cq *CQ) WaitFor(ctx context.Context, wcs []WC, options WaitOptions) (int, error) {
	if options.Owner == nil {
		options.Owner = context.Background()
	}
	room := len(wcs) + len(options.Ex)
	if room == 0 || wcs != nil && options.Ex != nil || cq.channel == nil && !options.NoSleep {
		e := fail("ibv_get_cq_event", cq.device, "", syscall.EINVAL).(*Error)
		e.Hint = "a CQ made with a CompChannel, and room for at least one completion, in wcs or in WaitOptions.Ex"
		return 0, e
	}
	w := wait{cq: cq, WaitOptions: options, wcs: wcs}
	if options.Spin > 0 || options.NoSleep {
		if n, err := w.spin(ctx); n > 0 || err != nil || options.NoSleep {
			return n, err
		}
	}
	return w.sleep(ctx)
}

// wait is one call of WaitFor. It stays on the stack.
type wait struct {
	cq *CQ
	WaitOptions
	wcs []WC
}

func (w *wait) poll() (int, error) {
	if w.Ex != nil {
		return w.cq.PollEx(w.Ex)
	}
	return w.cq.Poll(w.wcs)
}

// spinPolls is how many polls go by between two looks at the clock and the contexts.
const spinPolls = 64

// spin polls until something comes, for as long as Spin.
func (w *wait) spin(ctx context.Context) (int, error) {
	n, err := w.poll()
	if n > 0 || err != nil || w.Spin <= 0 || w.cq.WaitMakesProgress() {
		return n, err
	}
	for began := time.Now(); ; runtime.Gosched() {
		n, err = w.polls()
		if n == 0 && err == nil {
			err = w.ended(ctx)
		}
		if n > 0 || err != nil || time.Since(began) >= w.Spin {
			return n, err
		}
	}
}

// ended is the error of a context that has ended, or nil.
func (w *wait) ended(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctxwatch.Err(ctx)
	case w.Owner.Err() != nil:
		return context.Cause(w.Owner)
	}
	return nil
}

// polls polls spinPolls times at most.
func (w *wait) polls() (n int, err error) {
	s, ok := w.cq.p.(ProviderCQSpinner)
	if !ok || w.Ex != nil {
		for range spinPolls {
			if n, err = w.poll(); n > 0 || err != nil {
				break
			}
		}
		return n, err
	}
	if n = w.cq.leftover.take(w.wcs); n > 0 {
		return n, nil
	}
	if n, err = s.Spin(w.wcs, spinPolls); err != nil {
		return n, w.cq.fail("ibv_poll_cq", "", err)
	}
	return n, nil
}

// sleep polls, arms and sleeps until something comes.
func (w *wait) sleep(ctx context.Context) (int, error) {
	cq := w.cq
	cq.waiting.Add(1)
	defer cq.waiting.Add(-1)
	if !w.Solicited {
		cq.plain.Add(1)
		defer cq.plain.Add(-1)
	}
	for {
		n, err := w.pollOrArm()
		if n > 0 || err != nil {
			if cq.waiting.Load() > 1 {
				cq.wakeWaiter() // one event woke us; the others may have to do the same
			}
			return n, err
		}
		select {
		case <-ctx.Done():
			return 0, ctxwatch.Err(ctx)
		case <-w.Owner.Done():
			return 0, context.Cause(w.Owner)
		case <-cq.gone:
			return 0, cq.fail("ibv_get_cq_event", "", net.ErrClosed)
		default:
			cq.sleep(ctx, w.Owner)
		}
	}
}

// pollOrArm polls, and if there is nothing arms and polls again.
func (w *wait) pollOrArm() (int, error) {
	if n, err := w.poll(); n > 0 || err != nil {
		return n, err
	}
	if err := w.cq.Arm(w.Solicited); err != nil {
		return 0, err
	}
	return w.poll()
}

// WaitMakesProgress reports whether the device makes progress in the goroutine that waits.
// The software device does: the waiting goroutine receives packets. Polling is then no
// faster than waiting.
func (cq *CQ) WaitMakesProgress() bool {
	s, ok := cq.p.(ProviderCQSleeper)
	return ok && s.SleepMakesProgress()
}

// sleep returns after an event, the end of ctx or owner, or Close, or earlier.
func (cq *CQ) sleep(ctx, owner context.Context) {
	if s, ok := cq.p.(ProviderCQSleeper); ok {
		s.Sleep(ctx, owner, cq.woken, cq.gone)
		return
	}
	select {
	case <-cq.woken:
	case <-ctx.Done():
	case <-owner.Done():
	case <-cq.gone:
	}
}

// wakeWaiter has one of those who wait, or who is just about to sleep, poll again.
func (cq *CQ) wakeWaiter() {
	wakeUp(cq.woken)()
	if s, ok := cq.p.(ProviderCQSleeper); ok {
		s.WakeSleeper()
	}
}
