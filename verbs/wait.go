// Waiting for completions: poll, arm, poll again, sleep.

package verbs

import (
	"context"
	"net"
	"runtime"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/internal/sync/ctxwatch"
)

// WaitOptions say how [CQ.WaitFor] waits. The zero value waits as [CQ.Wait] does. Options can be
// combined.
type WaitOptions struct {
	// Owner is a second context, such as that of the connection that the CQ belongs to. If Owner
	// ends, the wait ends with context.Cause(Owner) as its error. Merging two contexts into one
	// would allocate. nil means no second context.
	Owner context.Context
	// Ex receives extended completions, on a CQ made with CQInit.Ex. wcs must then be nil.
	Ex []WCEx
	// Spin is how long to poll before sleeping. Polling is faster than sleeping and uses a whole CPU.
	// On libibverbs Spin is rounded up to 64 polls, which are one call into C. On the software device
	// the goroutine receives packets between its polls, and yields the CPU if there are none. After such a
	// wait the device may do nothing for up to two milliseconds, unless the program posts or waits again. If
	// [CQ.Spins] returns false, a wait polls only once.
	Spin time.Duration
	// NoSleep returns 0 completions and no error instead of sleeping. It needs no channel. A loop that
	// only polls should set Spin too, for example to a nanosecond: on the software device the loop then
	// receives the packets.
	NoSleep bool
	// Solicited sleeps until a completion that the peer marked solicited ([SendSolicited]) or that
	// failed (rdma_rxe: only solicited ones). All completions are polled before and after the
	// sleep. While another goroutine waits for any completion, any completion ends the sleep.
	Solicited bool
}

// Wait returns completions, and waits for them if there are none. It polls; if the CQ is empty, it
// arms the CQ, polls again and sleeps until an event, the end of ctx or Close.
//
// Wait returns at least one completion or an error. The error is net.ErrClosed, an error of Poll
// or Arm, or an error that matches ctx.Err() and context.Cause(ctx) with errors.Is. Completions
// that are already there are returned even if ctx has ended. EINVAL if the CQ has no channel or
// wcs is empty, or for a negative [WaitOptions].Spin.
//
// Any number of goroutines may wait on one CQ. A wait does not hold an operating system thread. A
// wait allocates only if it lasts longer than a millisecond and its context differs from that of
// the CQ's last wait. It then watches the context, as context.AfterFunc does, until a wait with
// another context or Close. A wait may end up to two milliseconds after its context.
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
	if options.Spin < 0 {
		e := fail("ibv_poll_cq", cq.device, "Spin "+options.Spin.String(), syscall.EINVAL).(*Error)
		e.Hint = "a Spin of 0 or more"
		return 0, e
	}
	room := len(wcs) + len(options.Ex)
	if room == 0 || wcs != nil && options.Ex != nil || cq.channel == nil && !options.NoSleep {
		e := fail("ibv_get_cq_event", cq.device, "", syscall.EINVAL).(*Error)
		e.Hint = "a CQ made with a CompChannel, and room for at least one completion, in wcs or in WaitOptions.Ex"
		return 0, e
	}
	if options.Spin > 0 && wcs != nil { // before w is made, which costs as much as the rest of a poll
		if n, err := cq.polls(wcs, spinPolls); n > 0 || err != nil {
			return n, err
		}
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

const (
	spinPolls  = 64 // polls between two checks of the clock and the contexts
	drivePolls = 16 // polls before the goroutine yields, if the goroutine drives the device
)

// spin polls until there is a completion, at most for Spin. The first polls of a spin into wcs have found
// nothing. The time begins after them, so that a completion that comes soon costs no look at the clock.
func (w *wait) spin(ctx context.Context) (n int, err error) {
	if w.Spin <= 0 || w.Ex != nil {
		if n, err = w.poll(); n > 0 || err != nil || w.Spin <= 0 {
			return n, err
		}
	}
	if w.cq.WaitMakesProgress() {
		return w.drive(ctx)
	}
	for began := time.Now(); ; runtime.Gosched() {
		if err = w.ended(ctx); err != nil {
			return w.last(err)
		}
		if time.Since(began) >= w.Spin {
			return 0, nil
		}
		if n, err = w.polls(); n > 0 || err != nil {
			return n, err
		}
	}
}

// drive is spin on a device that makes progress only in goroutines such as this one.
func (w *wait) drive(ctx context.Context) (n int, err error) {
	if !w.cq.Spins() {
		return 0, nil
	}
	d := w.cq.p.(ProviderCQDriver)
	defer d.DriveEnd()
	for began, polls := time.Now(), 1; ; polls++ {
		d.DriveOnce()
		if n, err = w.poll(); n > 0 || err != nil {
			return n, err
		}
		if err = w.ended(ctx); err != nil {
			return w.last(err)
		}
		if time.Since(began) >= w.Spin {
			return 0, nil
		}
		if polls%drivePolls == 0 {
			runtime.Gosched()
		}
	}
}

// ended returns the error of a context that has ended, or nil.
func (w *wait) ended(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctxwatch.Err(ctx)
	case w.Owner.Err() != nil:
		return context.Cause(w.Owner)
	}
	return nil
}

// last polls once more when a context has ended: a completion that came first is returned, and not the error.
func (w *wait) last(end error) (int, error) {
	if n, err := w.poll(); n > 0 || err != nil {
		return n, err
	}
	return 0, end
}

// polls polls up to spinPolls times.
func (w *wait) polls() (n int, err error) {
	if w.Ex == nil {
		return w.cq.polls(w.wcs, spinPolls)
	}
	for range spinPolls {
		if n, err = w.poll(); n > 0 || err != nil {
			break
		}
	}
	return n, err
}

// polls polls up to most times on a device for which that is one call, and otherwise once.
func (cq *CQ) polls(wcs []WC, most int) (n int, err error) {
	if cq.leftover.n.Load() > 0 {
		if n = cq.leftover.take(wcs); n > 0 {
			return n, nil
		}
	}
	overran := cq.overran.Load() // before the poll, because completions that are left come first
	if cq.spinner != nil {
		n, err = cq.spinner.Spin(wcs, most)
	} else {
		n, err = cq.p.Poll(wcs)
	}
	if n > 0 && err == nil && cq.wcs == nil { // nearly always
		return n, nil
	}
	if cq.wcs != nil {
		cq.wcs.add(wcs[:n])
	}
	return n, cq.polled("ibv_poll_cq", n, overran, err)
}

// sleep polls, arms and sleeps until there is a completion.
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
				cq.wakeWaiter() // one event wakes one goroutine; there may be more completions
			}
			return n, err
		}
		select {
		case <-ctx.Done():
			return w.last(ctxwatch.Err(ctx))
		case <-w.Owner.Done():
			return w.last(context.Cause(w.Owner))
		case <-cq.gone:
			return 0, cq.fail("ibv_get_cq_event", "", net.ErrClosed)
		default:
			cq.sleep(ctx, w.Owner)
		}
	}
}

// pollOrArm polls. If there is nothing, it arms the CQ and polls again.
func (w *wait) pollOrArm() (int, error) {
	if n, err := w.poll(); n > 0 || err != nil {
		return n, err
	}
	if err := w.cq.Arm(w.Solicited); err != nil {
		return 0, err
	}
	return w.poll()
}

// WaitMakesProgress reports whether the device makes progress in the waiting goroutine. The
// software device does: the waiting goroutine receives packets. Poll alone does not receive any, but a
// wait with [WaitOptions].Spin does.
func (cq *CQ) WaitMakesProgress() bool {
	s, ok := cq.p.(ProviderCQSleeper)
	return ok && s.SleepMakesProgress()
}

// Spins reports whether [WaitOptions].Spin polls for its time. It returns false for the software device
// on a simulated network, on systems other than Linux, and in sandboxes without the system calls recvmmsg
// and sendmmsg. There a wait polls once and then sleeps.
func (cq *CQ) Spins() bool {
	d, ok := cq.p.(ProviderCQDriver)
	return ok && d.Drives() || !cq.WaitMakesProgress()
}

// sleep returns after an event, the end of ctx or owner, or Close. It may return earlier.
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

// wakeWaiter makes one goroutine that waits, or is about to sleep, poll again.
func (cq *CQ) wakeWaiter() {
	wakeUp(cq.woken)()
	if s, ok := cq.p.(ProviderCQSleeper); ok {
		s.WakeSleeper()
	}
}
