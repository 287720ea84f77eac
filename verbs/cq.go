// Completion queues and their event channel. Waiting is in wait.go.

package verbs

import (
	"fmt"
	"math"
	"sync/atomic"
	"syscall"
	"time"
)

// CompChannel delivers the completion events of the CQs made with it (struct ibv_comp_channel);
// [CQ.Wait] reads them. One channel is enough for all CQs of a device: each wait gets the events
// of its own CQ. [Device.CreateCompChannel] makes a channel; it is valid until Close.
//
// All methods of a CompChannel may be called at the same time by several goroutines, Close included.
type CompChannel struct {
	handle
	p   ProviderCompChannel
	dev *Device
}

// CreateCompChannel makes a completion channel. On libibverbs a channel uses two file descriptors
// and no thread. EMFILE if the process has too many open files. The device cannot be closed
// before the channel is.
//
// Implements: struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
func (d *Device) CreateCompChannel() (*CompChannel, error) {
	ch := &CompChannel{dev: d}
	return makeObject(ch, &ch.handle, &ch.p, "completion channel", "ibv_create_comp_channel", "", d.p.CreateCompChannel, &d.handle)
}

// Close destroys the channel; EBUSY while CQs use it. Closing again does nothing.
//
// Implements: int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
func (ch *CompChannel) Close() error {
	if ch == nil || ch.p == nil {
		return nil
	}
	return ch.close("ibv_destroy_comp_channel", ch.p.Close)
}

// CompVectors returns the number of completion vectors. CQInit.Vector must be less. It returns 0
// after Close.
//
// Reads: num_comp_vectors of the context.
func (d *Device) CompVectors() (n int) {
	_ = d.use(func() error {
		n = d.p.CompVectors()
		return nil
	})
	return n
}

// CQInit describes a new completion queue (struct ibv_cq_init_attr_ex). With only Depth set, it
// describes a plain CQ without a channel, for Poll.
type CQInit struct {
	Depth   int          // entries, at least 1; at least the sum of the queues that complete here
	Channel *CompChannel // needed to wait; many CQs may share a channel; nil: Poll only
	Vector  int          // completion vector (which interrupt), less than Device.CompVectors; 0 is the first; or AnyVector
	Ex      WCExFlags    // not 0: an extended CQ, for PollEx and WaitOptions.Ex
	Flags   CQFlags      // 0 means no flags; few devices support any
}

// AnyVector as CQInit.Vector means the device's next completion vector, so that CQs are spread over all of them.
const AnyVector = -1

// CQ is a completion queue (struct ibv_cq, struct ibv_cq_ex). [Device.CreateCQ] makes it; it is
// valid until Close. If more completions arrive than the CQ has entries, the CQ overruns: the
// device reports [EventCQErr], the CQ's queue pairs fail, and polls, waits and posts return an
// *[OverrunError].
//
// All methods of a CQ may be called at the same time by several goroutines, Close included. Polls
// run one after the other, and each completion goes to one caller.
type CQ struct {
	handle
	p        ProviderCQ
	spinner  ProviderCQSpinner // p, or nil if it is none
	dev      *Device
	channel  *CompChannel
	vector   int
	wcs      *WCCounts     // the device's; nil: completions are not counted
	woken    chan struct{} // holds at most one wake-up
	gone     chan struct{} // closed by Close
	overran  *atomic.Bool  // a completion was lost; see overrun.go
	waiting  atomic.Int32  // goroutines in a wait
	plain    atomic.Int32  // those of them that wait for any completion, not only solicited ones
	leftover leftovers     // completions left by a Completions loop that ended early
}

// CreateCQ makes a completion queue. The device and the channel cannot be closed before the CQ is.
//
// EINVAL for a depth or a vector that the device does not support, or a channel of another device;
// ENOMEM if there is no memory, or if the process may not lock more memory; errors.ErrUnsupported
// if the device does not support Ex or Flags.
//
// Implements: struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector),
// struct ibv_cq_ex *ibv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *cq_attr)
func (d *Device) CreateCQ(init CQInit) (*CQ, error) {
	op, detail := "ibv_create_cq", fmt.Sprintf("depth %d", init.Depth)
	if init.Ex != 0 || init.Flags != 0 {
		op, detail = "ibv_create_cq_ex", fmt.Sprintf("depth %d, %v, %v", init.Depth, init.Ex, init.Flags)
	}
	cq := &CQ{dev: d, wcs: d.wcs, channel: init.Channel, woken: make(chan struct{}, 1), gone: make(chan struct{}), overran: new(atomic.Bool)}
	parents := []*handle{&d.handle}
	var ch ProviderCompChannel
	if init.Channel != nil {
		if init.Channel.dev != d {
			return nil, otherDevice(op, d.device, "the channel is of "+init.Channel.device)
		}
		parents = append(parents, &init.Channel.handle)
		ch = init.Channel.p
	}
	vector := init.Vector
	if vector == AnyVector {
		vector = int(d.vectors.Add(1)-1) % max(d.CompVectors(), 1)
	}
	overran := cq.overran // not cq, for the same reason as in wakeUp
	_, err := makeObject(cq, &cq.handle, &cq.p, "CQ", op, detail, func() (ProviderCQ, error) {
		return d.p.CreateCQ(ProviderCQInit{Depth: init.Depth, Channel: ch, Vector: vector, Ex: init.Ex, Flags: init.Flags,
			Wake: wakeUp(cq.woken), Overran: func() { overran.Store(true) }})
	}, parents...)
	if err != nil {
		return nil, err
	}
	cq.vector = vector
	cq.spinner, _ = cq.p.(ProviderCQSpinner)
	return cq, nil
}

// Vector returns the completion vector, from 0.
func (cq *CQ) Vector() int { return cq.vector }

// wakeUp returns a function that leaves a wake-up for one waiter. One wake-up is enough for any
// number of events. The function refers to the channel and not to the CQ, so that a CQ without
// Close can be collected and reported while the provider keeps the function.
func wakeUp(woken chan struct{}) func() {
	return func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}

// Depth returns the number of entries: at least the requested number. It is valid after Close.
func (cq *CQ) Depth() int { return cq.p.Depth() }

// Is reports whether an asynchronous event is about this CQ. It is valid after Close.
func (cq *CQ) Is(e AsyncEvent) bool { return e.object == cq.p }

// Poll moves up to len(wcs) completions into wcs, oldest first, and returns their number, which may
// be 0. It never waits and does not allocate. A failed work request is a completion, not an error:
// check [WC.Err]. The error is net.ErrClosed after Close, an *[OverrunError] if the CQ overran and has
// no completions left, or the errno if the CQ failed.
//
// Implements: int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
func (cq *CQ) Poll(wcs []WC) (int, error) {
	return cq.polls(wcs, 1)
}

// PollEx is Poll for a CQ made with CQInit.Ex. For other CQs it returns EINVAL. On libibverbs it
// makes one call into C per 256 completions. Errors are those of Poll.
//
// Implements: int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr), int ibv_next_poll(struct ibv_cq_ex *cq),
// void ibv_end_poll(struct ibv_cq_ex *cq), struct ibv_cq *ibv_cq_ex_to_cq(struct ibv_cq_ex *cq)
func (cq *CQ) PollEx(wcs []WCEx) (int, error) {
	if n := cq.leftover.takeEx(wcs); n > 0 {
		return n, nil
	}
	overran := cq.overran.Load()
	n, err := cq.p.PollEx(wcs)
	if cq.wcs != nil {
		cq.wcs.addEx(wcs[:n])
	}
	err = cq.polled("ibv_start_poll", n, overran, err)
	if e, ok := err.(*Error); ok && e.Errno == syscall.EINVAL {
		e.Hint = "a CQ made with CQInit.Ex"
	}
	return n, err
}

// Arm requests one wake-up at the next completion. With solicitedOnly it requests a wake-up at the
// next completion that the peer marked solicited or that failed (rdma_rxe: only solicited ones).
// Completions that are already in the CQ do not count, so poll again after Arm. [CQ.Wait] arms
// the CQ itself. While a goroutine waits for any completion, solicitedOnly is ignored.
// net.ErrClosed after Close; EIO or another errno if the channel failed.
//
// Implements: int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
func (cq *CQ) Arm(solicitedOnly bool) error {
	err := cq.p.Arm(solicitedOnly && cq.plain.Load() == 0)
	if err == nil && solicitedOnly && cq.plain.Load() > 0 {
		err = cq.p.Arm(false) // a plain wait may have armed just before; on some devices the last arm counts
	}
	if err != nil {
		return cq.fail("ibv_req_notify_cq", "", err)
	}
	return nil
}

// Resize changes the number of entries to at least depth; Depth returns the new number. Completions
// in the CQ stay. EINVAL if the device does not support the depth, or if the completions in the
// CQ do not fit; errors.ErrUnsupported if the device cannot resize; net.ErrClosed after Close.
//
// Implements: int ibv_resize_cq(struct ibv_cq *cq, int cqe)
func (cq *CQ) Resize(depth int) error {
	return cq.call("ibv_resize_cq", fmt.Sprintf("depth %d", depth), func() error { return cq.p.Resize(depth) })
}

// Moderate delays events, and so the wake-up of waiters. An event comes after count completions
// since the CQ was armed, or when period has passed since the first of them. If either is 0, or
// count is 1, events are no longer delayed. The period is rounded up to whole microseconds.
// EINVAL for a count above 65535 or a period above 65.535 ms; errors.ErrUnsupported if the device
// has no moderation; net.ErrClosed after Close.
//
// Implements: int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
func (cq *CQ) Moderate(count int, period time.Duration) error {
	return cq.call("ibv_modify_cq", fmt.Sprintf("count %d, period %v", count, period), func() error {
		if count < 0 || count > math.MaxUint16 || period < 0 || period > math.MaxUint16*time.Microsecond {
			return syscall.EINVAL
		}
		up := (period + time.Microsecond - 1).Truncate(time.Microsecond) // a period below 1 µs must not become 0
		return cq.p.Moderate(count, up)
	})
}

// Close destroys the CQ. Goroutines that wait on it wake with net.ErrClosed. Completions still in
// the CQ are lost. EBUSY while queue pairs use the CQ. Closing again does nothing.
//
// Implements: int ibv_destroy_cq(struct ibv_cq *cq)
func (cq *CQ) Close() error {
	if cq == nil || cq.p == nil {
		return nil
	}
	return cq.close("ibv_destroy_cq", func() error {
		if err := cq.p.Close(); err != nil {
			return err
		}
		cq.leftover.drop()
		close(cq.gone)
		return nil
	})
}
