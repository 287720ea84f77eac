//go:build linux && cgo && !nolibibverbs

// The C wall: completion channels. One of the goroutines that wait on a channel's CQs reads the
// channel and wakes the other CQs, so Go's poller wakes a goroutine that has a completion to poll.
//
// The end of the reader's context, Close and WakeSleeper interrupt the reader. Two rules make sure
// that no interrupt is missed: set the condition, then interrupt; register as reader, then check
// the condition. docs/design/waiting.md has the details.

package verbs

// #include "ibv_shim.h"
import "C"

import (
	"context"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs/internal/ccall"
)

// ibvCompChannel is struct ibv_comp_channel.
type ibvCompChannel struct {
	ch     *C.struct_ibv_comp_channel
	cqs    *ibvTable[*C.struct_ibv_cq, *ibvCQ]
	turn   chan struct{}                 // holds one value while a goroutine reads, and after Close
	reader atomic.Pointer[ibvCQ]         // the CQ on which the reading goroutine waits
	broken atomic.Pointer[syscall.Errno] // why the channel can no longer be read

	events *fdWaiter                    // for the goroutine with the turn, like got and n
	got    *[maxEvents]*C.struct_ibv_cq // the events of the last read, in the first n elements
	n      int
}

// maxEvents is the largest number of completion events that one call into C reads.
const maxEvents = 16

// newIBVCompChannel makes a channel without the waiter for its events.
func newIBVCompChannel(d *ibvDevice) *ibvCompChannel {
	got := new([maxEvents]uintptr) // numbers, because Go must not follow C's pointers
	return &ibvCompChannel{cqs: &d.cqs, turn: make(chan struct{}, 1), got: (*[maxEvents]*C.struct_ibv_cq)(unsafe.Pointer(got))}
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

// Sleep waits until the CQ was woken or closed, or until ctx or owner has ended. If no other
// goroutine reads the channel, it reads the channel meanwhile.
func (c *ibvCQ) Sleep(ctx, owner context.Context, woken, gone <-chan struct{}) {
	select {
	case c.channel.turn <- struct{}{}:
	default:
		select {
		case c.channel.turn <- struct{}{}:
		case <-woken:
			return
		case <-ctx.Done():
			return
		case <-owner.Done():
			return
		case <-gone:
			return
		}
	}
	c.readForAll(ctx, owner, woken)
	<-c.channel.turn
}

// SleepMakesProgress returns false: the device makes progress without a waiting goroutine.
func (c *ibvCQ) SleepMakesProgress() bool { return false }

// WakeSleeper interrupts the goroutine that reads the channel, if that goroutine waits on this CQ.
func (c *ibvCQ) WakeSleeper() {
	if ch := c.channel; ch != nil && ch.reader.Load() == c {
		ch.events.Interrupt()
	}
}

// readForAll reads events until one of them is this CQ's, or until mayRead returns false.
func (c *ibvCQ) readForAll(ctx, owner context.Context, woken <-chan struct{}) {
	ch := c.channel
	ch.reader.Store(c)
	for mine := false; !mine && c.mayRead(ctx, owner, woken); {
		switch err := ch.events.wait(); err {
		case nil:
			mine = ch.passOn(c)
		case errTick:
			ch.events.resume() // mayRead finds the reason of the interrupt
		default:
			ch.breaks(err)
		}
	}
	ch.reader.Store(nil)
}

// mayRead reports whether to go on reading. A reason that appears later interrupts the read.
func (c *ibvCQ) mayRead(ctx, owner context.Context, woken <-chan struct{}) bool {
	select {
	case <-woken:
		return false
	default:
	}
	return ctx.Err() == nil && owner.Err() == nil && c.channel.broken.Load() == nil && c.watch(ctx, owner)
}

// watch makes the end of either context interrupt the reader. It returns false if the CQ is closed.
func (c *ibvCQ) watch(ctx, owner context.Context) bool {
	c.watchMu.Lock()
	defer c.watchMu.Unlock()
	if !c.closed {
		c.watched[0].Set(ctx, c.channel.events)
		c.watched[1].Set(owner, c.channel.events)
	}
	return !c.closed
}

func (c *ibvCQ) unwatch() {
	c.watchMu.Lock()
	defer c.watchMu.Unlock()
	c.closed = true
	for i := range c.watched {
		c.watched[i].End()
	}
}

// passOn wakes the CQs whose events were read, except own. It reports whether own is among them.
func (ch *ibvCompChannel) passOn(own *ibvCQ) (mine bool) {
	for _, cq := range ch.got[:ch.n] {
		p, ok := ch.cqs.find(cq)
		if !ok {
			continue // the CQ has been closed since
		}
		if p.unread.Store(0); p == own {
			mine = true
		} else {
			p.wake()
		}
	}
	return mine
}

// drain reads the events that have come, unless another goroutine reads. Otherwise the events of a
// program that arms and polls, but never sleeps, would pile up in the kernel's memory.
func (ch *ibvCompChannel) drain() {
	select {
	case ch.turn <- struct{}{}:
	default:
		return // the reader gets them
	}
	ch.events.resume() // an interrupt may be left over from a reader that has stopped
	err := ch.events.now()
	for ; err == nil; err = ch.events.now() {
		ch.passOn(nil)
	}
	if err != syscall.EAGAIN && err != errTick {
		ch.breaks(err)
	}
	<-ch.turn
}

// breaks stores the error and wakes all CQs of the channel. Their next Arm returns the error.
func (ch *ibvCompChannel) breaks(err error) {
	errno := errnoOf(err)
	if errno == 0 {
		errno = syscall.EIO
	}
	ch.broken.Store(&errno)
	ch.cqs.each(func(cq *ibvCQ) {
		if cq.channel == ch {
			cq.wake()
		}
	})
}

// Close takes the turn and keeps it. The last reader returns the turn soon, because its CQ is closed.
// If the channel cannot be destroyed, Close returns the turn.
func (ch *ibvCompChannel) Close() error {
	ch.turn <- struct{}{}
	if err := errnoErr(C.rv_destroy_comp_channel(ch.ch)); err != nil {
		<-ch.turn
		return err
	}
	_ = ch.events.close() // the channel is destroyed, even if closing the duplicate fails
	return nil
}
