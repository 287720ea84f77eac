// Completion queues and their event channel. Waiting is in wait.go.

package verbs

import (
	"fmt"
	"math"
	"sync/atomic"
	"syscall"
	"time"
)

// CompChannel delivers completion events of the CQs made with it (struct
// ibv_comp_channel); [CQ.Wait] reads them. One channel is enough for all CQs of a device:
// each wait gets the events of its own CQ. [Device.CreateCompChannel] makes a channel,
// which is valid until Close.
//
// Its methods may be called by several goroutines at once.
type CompChannel struct {
	handle
	p   ProviderCompChannel
	dev *Device
}

// CreateCompChannel makes a completion channel. On libibverbs it takes two file
// descriptors, and no thread. EMFILE if the process has too many open files. The device
// cannot be closed before the channel.
//
// Implements: struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
func (d *Device) CreateCompChannel() (*CompChannel, error) {
	ch := &CompChannel{dev: d}
	p, err := makeObject(&ch.handle, "completion channel", "ibv_create_comp_channel", "", d.p.CreateCompChannel, &d.handle)
	if err != nil {
		return nil, err
	}
	ch.p = p
	return ch, nil
}

// Close destroys the channel; EBUSY while CQs use it. Closing again does nothing.
//
// Implements: int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
func (ch *CompChannel) Close() error { return ch.close("ibv_destroy_comp_channel", ch.p.Close) }

// CompVectors is how many completion vectors the device has: CQInit.Vector is
// below it. 0 once the device is closed.
//
// Reads: num_comp_vectors of the context.
func (d *Device) CompVectors() (n int) {
	_ = d.use(func() error {
		n = d.p.CompVectors()
		return nil
	})
	return n
}

// CQInit says what completion queue to make (struct ibv_cq_init_attr_ex). The zero
// value of each field but Depth works: a plain CQ, to be polled.
type CQInit struct {
	Depth   int          // entries, from 1 on: at least the sum of the queues that complete here
	Channel *CompChannel // needed to wait; many CQs may have one and the same; nil: Poll alone
	Vector  int          // completion vector, below Device.CompVectors: which of the device's interrupts; 0 is the first
	Ex      WCExFlags    // not 0: an extended CQ, for PollEx and WaitOptions.Ex
	Flags   CQFlags      // 0 is none; few devices have any
}

// CQ is a completion queue (struct ibv_cq, struct ibv_cq_ex). [Device.CreateCQ] makes it;
// it is valid until Close. If more completions come than it has entries it overruns:
// [EventCQErr], and its queue pairs fail.
//
// Its methods may be called by several goroutines at once; polls are then served in
// turn, and each completion goes to one of them.
type CQ struct {
	handle
	p        ProviderCQ
	dev      *Device
	channel  *CompChannel
	woken    chan struct{} // holds at most one wake-up
	gone     chan struct{} // closed by Close
	waiting  atomic.Int32  // goroutines in a wait
	plain    atomic.Int32  // of these, those that any completion is to wake
	leftover leftovers     // polled by a Completions loop that ended early
}

// CreateCQ makes a completion queue. The error is EINVAL for a depth or a vector
// that the device has not, or a channel of another device; ENOMEM if there is no
// memory, or none may be locked; errors.ErrUnsupported for what it cannot do of Ex and
// Flags. Device and channel cannot be closed before the CQ.
//
// Implements: struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector),
// struct ibv_cq_ex *ibv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *cq_attr)
func (d *Device) CreateCQ(init CQInit) (*CQ, error) {
	op, detail := "ibv_create_cq", fmt.Sprintf("depth %d", init.Depth)
	if init.Ex != 0 || init.Flags != 0 {
		op, detail = "ibv_create_cq_ex", fmt.Sprintf("depth %d, %v, %v", init.Depth, init.Ex, init.Flags)
	}
	cq := &CQ{dev: d, channel: init.Channel, woken: make(chan struct{}, 1), gone: make(chan struct{})}
	parents := []*handle{&d.handle}
	var ch ProviderCompChannel
	if init.Channel != nil {
		if init.Channel.dev != d {
			return nil, otherDevice(op, d.device, "the channel is of "+init.Channel.device)
		}
		parents = append(parents, &init.Channel.handle)
		ch = init.Channel.p
	}
	p, err := makeObject(&cq.handle, "CQ", op, detail, func() (ProviderCQ, error) {
		return d.p.CreateCQ(ProviderCQInit{
			Depth: init.Depth, Channel: ch, Vector: init.Vector, Ex: init.Ex, Flags: init.Flags, Wake: wakeUp(cq.woken)})
	}, parents...)
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

// Depth is the number of entries it has: at least what was asked for. It answers after
// Close too.
func (cq *CQ) Depth() int { return cq.p.Depth() }

// Is says whether an asynchronous event is about this CQ; it answers after Close too.
func (cq *CQ) Is(e AsyncEvent) bool { return e.CQ == cq.p }

// Poll moves up to len(wcs) completions into wcs, oldest first, and returns how
// many; 0 if there is none. It never waits and allocates nothing. A work request that
// failed is a completion, not an error: look at [WC.Err]. The error is net.ErrClosed
// after Close, or the errno of a CQ that broke.
//
// Implements: int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
func (cq *CQ) Poll(wcs []WC) (int, error) {
	if n := cq.leftover.take(wcs); n > 0 {
		return n, nil
	}
	n, err := cq.p.Poll(wcs)
	if err != nil {
		return n, cq.fail("ibv_poll_cq", "", err)
	}
	return n, nil
}

// PollEx is Poll for a CQ made with CQInit.Ex, and EINVAL for another. However many
// completions it takes, up to 256, it is one call into C. Errors are those of Poll.
//
// Implements: int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr), int ibv_next_poll(struct ibv_cq_ex *cq),
// void ibv_end_poll(struct ibv_cq_ex *cq), struct ibv_cq *ibv_cq_ex_to_cq(struct ibv_cq_ex *cq)
func (cq *CQ) PollEx(wcs []WCEx) (int, error) {
	if n := cq.leftover.takeEx(wcs); n > 0 {
		return n, nil
	}
	n, err := cq.p.PollEx(wcs)
	if err != nil {
		e := cq.fail("ibv_start_poll", "", err).(*Error)
		if e.Errno == syscall.EINVAL {
			e.Hint = "a CQ made with CQInit.Ex"
		}
		return n, e
	}
	return n, nil
}

// Arm asks for one wake-up at the next completion, or with solicitedOnly at the
// next one that the peer marked solicited or that failed (rdma_rxe: solicited alone).
// Completions that are there already do not count, so poll again after it. [CQ.Wait]
// arms by itself; while a goroutine waits for any completion, solicitedOnly does not
// count. net.ErrClosed after Close; EIO, or another errno, if the channel broke.
//
// Implements: int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
func (cq *CQ) Arm(solicitedOnly bool) error {
	err := cq.p.Arm(solicitedOnly && cq.plain.Load() == 0)
	if err == nil && solicitedOnly && cq.plain.Load() > 0 {
		err = cq.p.Arm(false) // a plain wait may have armed just before, and on some devices the last arm counts
	}
	if err != nil {
		return cq.fail("ibv_req_notify_cq", "", err)
	}
	return nil
}

// Resize makes it hold at least depth entries; Depth tells what was granted. The
// completions in it stay. The error is EINVAL for a depth that the device has not
// or that they do not fit into, errors.ErrUnsupported if the device cannot resize,
// net.ErrClosed after Close.
//
// Implements: int ibv_resize_cq(struct ibv_cq *cq, int cqe)
func (cq *CQ) Resize(depth int) error {
	return cq.call("ibv_resize_cq", fmt.Sprintf("depth %d", depth), func() error { return cq.p.Resize(depth) })
}

// Moderate has events, and with them waiters, held back until count completions
// came since the CQ was armed, or period has passed since the first of them. 0 for
// either, or a count of 1, ends it. The period is rounded up to whole microseconds. A
// count beyond 65535 and a period beyond 65.535 ms are EINVAL; errors.ErrUnsupported
// comes from a device that has no moderation, net.ErrClosed after Close.
//
// Implements: int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
func (cq *CQ) Moderate(count int, period time.Duration) error {
	return cq.call("ibv_modify_cq", fmt.Sprintf("count %d, period %v", count, period), func() error {
		if count < 0 || count > math.MaxUint16 || period < 0 || period > math.MaxUint16*time.Microsecond {
			return syscall.EINVAL
		}
		up := (period + time.Microsecond - 1).Truncate(time.Microsecond) // less than one would be none at all
		return cq.p.Moderate(count, up)
	})
}

// Close destroys the CQ and wakes those who wait on it with net.ErrClosed; EBUSY while
// queue pairs use it. Completions that nobody polled are lost. Closing again does
// nothing.
//
// Implements: int ibv_destroy_cq(struct ibv_cq *cq)
func (cq *CQ) Close() error {
	return cq.close("ibv_destroy_cq", func() error {
		if err := cq.p.Close(); err != nil {
			return err
		}
		cq.leftover.drop()
		close(cq.gone)
		return nil
	})
}
