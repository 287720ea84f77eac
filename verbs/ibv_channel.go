//go:build linux && cgo && !nolibibverbs

// The C wall: completion channels. One of the goroutines that wait on a channel's CQs reads the
// channel and wakes the others whose events come; see package turn. So Go's poller wakes a goroutine
// that has a completion to poll.

package verbs

// #include "ibv_shim.h"
import "C"

import (
	"cmp"
	"context"
	"net"
	"syscall"
	"unsafe"

	"github.com/rawverbs/rawverbs/internal/sync/turn"
	"github.com/rawverbs/rawverbs/verbs/internal/ccall"
)

// ibvCompChannel is struct ibv_comp_channel.
type ibvCompChannel struct {
	ch     *C.struct_ibv_comp_channel
	cqs    *ibvTable[*C.struct_ibv_cq, *ibvCQ]
	events *fdWaiter

	turn.Turn                              // whose turn it is to read; Close keeps it. Its mutex guards what follows
	broken    error                        // why the channel can no longer be read, an errno; nil: it can
	got       *[maxEvents]*C.struct_ibv_cq // the events of the last read, in the first n elements; for whoever reads
	n         int
}

// maxEvents is the largest number of completion events that one call into C reads.
const maxEvents = 16

// newIBVCompChannel makes a channel without the waiter for its events.
func newIBVCompChannel(d *ibvDevice) *ibvCompChannel {
	got := new([maxEvents]uintptr) // numbers, because Go must not follow C's pointers
	c := &ibvCompChannel{cqs: &d.cqs, got: (*[maxEvents]*C.struct_ibv_cq)(unsafe.Pointer(got))}
	c.Interrupt = func() { c.events.Interrupt() }
	return c
}

func (d *ibvDevice) CreateCompChannel() (ProviderCompChannel, error) {
	c := newIBVCompChannel(d)
	if err := errnoErr(C.rv_create_comp_channel(d.ctx, &c.ch)); err != nil {
		return nil, err
	}
	var err error
	// Usually one event comes at a time. So after EAGAIN the next read asks for one event only and
	// does not ask for a second one before the first was handled.
	most := maxEvents
	get := func() syscall.Errno {
		n := int(ccall.Call(hotGetEvents, address(c.ch), uintptr(most), 0, 0, unsafe.Pointer(c.got)))
		if n < 0 {
			most = 1
			return syscall.Errno(-n)
		}
		most, c.n = maxEvents, n
		return 0
	}
	if c.events, err = newFDWaiter(int(c.ch.fd), "completion channel of "+d.name, get); err != nil {
		C.rv_destroy_comp_channel(c.ch)
		return nil, err
	}
	return c, nil
}

// Sleep waits until the CQ was woken or closed, until the channel is broken, or until ctx or owner has
// ended. If no other goroutine reads the channel, it reads the channel meanwhile.
func (c *ibvCQ) Sleep(ctx, owner context.Context, woken, _ <-chan struct{}) {
	ch := c.channel
	ch.Lock()
	defer ch.Unlock()
	_ = ch.AwaitAmong(ctx, owner, &c.sleepers, func() bool {
		select {
		case <-woken:
			return true
		default:
			return c.closed || ch.broken != nil
		}
	}, func() error { return c.read(ctx, owner) })
}

// SleepMakesProgress returns false: the device makes progress without a waiting goroutine.
func (c *ibvCQ) SleepMakesProgress() bool { return false }

// WakeSleeper makes the first goroutine in Sleep look whether the CQ was woken.
func (c *ibvCQ) WakeSleeper() {
	if ch := c.channel; ch != nil {
		ch.Lock()
		defer ch.Unlock()
		if len(c.sleepers) > 0 {
			ch.Wake(c.sleepers[0])
		}
	}
}

// endSleeps ends all calls of Sleep, and those to come. No context is watched any more.
func (c *ibvCQ) endSleeps() {
	if ch := c.channel; ch != nil {
		ch.Lock()
		defer ch.Unlock()
		c.closed = true
		for _, w := range c.sleepers {
			ch.Wake(w)
		}
		for i := range c.watched {
			c.watched[i].End()
		}
	}
}

// read waits for events once, for all CQs of the channel. The caller has the turn and holds the mutex, which
// read releases while it waits.
func (c *ibvCQ) read(ctx, owner context.Context) error {
	ch := c.channel
	if ctx.Err() != nil || owner.Err() != nil {
		return net.ErrClosed // to end the wait; whoever slept polls
	}
	c.watched[0].Set(ctx, ch.events)
	c.watched[1].Set(owner, ch.events)
	ch.Unlock()
	err := ch.events.wait()
	ch.Lock()
	ch.handle(err)
	return nil
}

// handle takes the result of a read: it wakes the CQs whose events were read, or notes that the channel is broken. All who
// sleep then leave one after the other, and their next Arm returns the error. handle reports whether events were read.
func (ch *ibvCompChannel) handle(err error) bool {
	switch err {
	case nil:
		for _, cq := range ch.got[:ch.n] {
			if c, ok := ch.cqs.find(cq); ok { // not closed since
				c.unread = 0
				c.wake()
				if len(c.sleepers) > 0 && c.sleepers[0].Asleep() { // otherwise that goroutine reads
					c.sleepers[0].Wake()
				}
			}
		}
	case syscall.EAGAIN:
	case errTick:
		ch.events.resume() // whoever reads next looks first for the reason of the interrupt
	default:
		ch.broken = cmp.Or(errnoOf(err), syscall.EIO)
	}
	return err == nil
}

// arms counts a call of Arm, and returns why the channel is broken. After maxEvents calls without an event read, arms reads
// the events that have come, unless another goroutine reads. Otherwise the events of a program that arms and polls, but
// never sleeps, would pile up in the kernel's memory.
func (c *ibvCQ) arms() error {
	ch := c.channel
	ch.Lock()
	defer ch.Unlock()
	if c.unread++; c.unread > maxEvents && ch.Works(nil) {
		ch.events.resume() // an interrupt may be left over from a reader that has stopped
		for ch.handle(ch.events.now()) {
		}
		c.unread = 1
	}
	return ch.broken
}

// Close takes the turn and keeps it, unless the channel cannot be destroyed.
func (ch *ibvCompChannel) Close() error {
	ch.Take(turn.NewWaiter())
	if err := errnoErr(C.rv_destroy_comp_channel(ch.ch)); err != nil {
		ch.Give()
		return err
	}
	_ = ch.events.close() // the channel is destroyed, even if closing the duplicate fails
	return nil
}
