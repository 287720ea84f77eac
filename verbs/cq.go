// Completion queues, the channel that tells of them, and waiting.

package verbs

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
)

// CompChannel tells of completions on the CQs made with it (struct
// ibv_comp_channel); [CQ.Wait] listens.
type CompChannel struct {
	handle
	p   CompChannelProvider
	dev *Device
}

// CreateCompChannel makes a completion channel.
//
// Implements: struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
func (d *Device) CreateCompChannel() (*CompChannel, error) {
	ch := &CompChannel{dev: d}
	p, err := born(&ch.handle, "completion channel", "ibv_create_comp_channel", "", d.p.CreateCompChannel, &d.handle)
	if err != nil {
		return nil, err
	}
	ch.p = p
	return ch, nil
}

// Close destroys the channel; EBUSY while CQs use it.
//
// Implements: int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
func (ch *CompChannel) Close() error { return ch.close("ibv_destroy_comp_channel", ch.p.Close) }

// CQInit says what completion queue to make. The zero value of each field but
// Depth works.
type CQInit struct {
	Depth   int          // entries: at least the sum of the queues that complete here
	Channel *CompChannel // needed by Wait
	Vector  int          // completion vector: which of the device's interrupts
}

// CQ is a completion queue (struct ibv_cq).
type CQ struct {
	handle
	p       CQProvider
	dev     *Device
	channel *CompChannel
	woken   chan struct{} // holds at most one wake-up
	gone    chan struct{} // closed by Close
	waiting atomic.Int32  // goroutines in Wait
}

// CreateCQ makes a completion queue.
//
// Implements: struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector)
func (d *Device) CreateCQ(init CQInit) (*CQ, error) {
	cq := &CQ{dev: d, channel: init.Channel, woken: make(chan struct{}, 1), gone: make(chan struct{})}
	parents := []*handle{&d.handle}
	var ch CompChannelProvider
	if init.Channel != nil {
		if init.Channel.dev != d {
			return nil, otherDevice("ibv_create_cq", d.device, "the channel is of "+init.Channel.device)
		}
		parents = append(parents, &init.Channel.handle)
		ch = init.Channel.p
	}
	p, err := born(&cq.handle, "CQ", "ibv_create_cq", fmt.Sprintf("depth %d", init.Depth),
		func() (CQProvider, error) { return d.p.CreateCQ(init.Depth, ch, init.Vector, wakeUp(cq.woken)) }, parents...)
	if err != nil {
		return nil, err
	}
	cq.p = p
	return cq, nil
}

// wakeUp leaves a wake-up for one waiter; one is enough however many events came.
// It holds the channel, not the CQ, so that a provider that keeps it does not
// keep a lost CQ from being noticed.
func wakeUp(woken chan struct{}) func() {
	return func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}

// Depth is the number of entries it has: at least what was asked for.
func (cq *CQ) Depth() int { return cq.p.Depth() }

// Is says whether an asynchronous event is about this CQ.
func (cq *CQ) Is(e AsyncEvent) bool { return e.CQ == cq.p }

// Poll moves up to len(wcs) completions into wcs, oldest first, and returns how
// many; 0 if there is none. It never waits and allocates nothing.
//
// Implements: int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
func (cq *CQ) Poll(wcs []WC) (int, error) {
	n, err := cq.p.Poll(wcs)
	if err != nil {
		return n, fail("ibv_poll_cq", cq.device, "", err)
	}
	return n, nil
}

// Arm asks for one wake-up at the next completion, or with solicitedOnly at the
// next one that the peer marked solicited or that failed. [CQ.Wait] arms by itself.
//
// Implements: int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
func (cq *CQ) Arm(solicitedOnly bool) error {
	if err := cq.p.Arm(solicitedOnly); err != nil {
		return fail("ibv_req_notify_cq", cq.device, "", err)
	}
	return nil
}

// Wait polls; if there is nothing it arms, polls again (a completion may have
// come between) and sleeps until an event, ctx's end or Close. It returns at
// least one completion or an error: context.Cause(ctx), or net.ErrClosed. Any
// number of goroutines may wait on one CQ; none holds an operating system thread.
// The CQ must have been made with a channel, and wcs must not be empty.
//
// Implements: int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only),
// int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context),
// void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
func (cq *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	return cq.WaitEither(ctx, context.Background(), wcs)
}

// WaitEither is [CQ.Wait] with a second context that ends it, such as one for the
// life of what the CQ belongs to: joining the two into one would cost each call an
// allocation. It allocates nothing.
func (cq *CQ) WaitEither(ctx, life context.Context, wcs []WC) (int, error) {
	if cq.channel == nil || len(wcs) == 0 {
		e := fail("ibv_get_cq_event", cq.device, "", syscall.EINVAL).(*Error)
		e.Hint = "a CQ made with a CompChannel, and room for at least one completion"
		return 0, e
	}
	cq.waiting.Add(1)
	defer cq.waiting.Add(-1)
	for {
		n, err := cq.pollOrArm(wcs)
		if n > 0 || err != nil {
			if cq.waiting.Load() > 1 {
				wakeUp(cq.woken)() // one event woke us; the others may have to do the same
			}
			return n, err
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-life.Done():
			return 0, context.Cause(life)
		case <-cq.gone:
			return 0, fail("ibv_get_cq_event", cq.device, "", net.ErrClosed)
		default:
			cq.sleep(ctx, life)
		}
	}
}

// sleep returns after an event, the end of ctx or life, or Close, or earlier.
func (cq *CQ) sleep(ctx, life context.Context) {
	if s, ok := cq.p.(CQSleeper); ok {
		s.Sleep(ctx, life, cq.woken, cq.gone)
		return
	}
	select {
	case <-cq.woken:
	case <-ctx.Done():
	case <-life.Done():
	case <-cq.gone:
	}
}

// pollOrArm polls, and if there is nothing arms and polls again.
func (cq *CQ) pollOrArm(wcs []WC) (int, error) {
	if n, err := cq.Poll(wcs); n > 0 || err != nil {
		return n, err
	}
	if err := cq.Arm(false); err != nil {
		return 0, err
	}
	return cq.Poll(wcs)
}

// Close destroys the CQ and wakes those who wait on it; EBUSY while queue pairs
// use it.
//
// Implements: int ibv_destroy_cq(struct ibv_cq *cq)
func (cq *CQ) Close() error {
	return cq.close("ibv_destroy_cq", func() error {
		if err := cq.p.Close(); err != nil {
			return err
		}
		close(cq.gone)
		return nil
	})
}
