//go:build linux && cgo

// The C wall: completion channels. One of those who wait on a channel's CQs reads it,
// so that Go's poller wakes the very goroutine that has to do something, with none
// between. What it reads for other CQs it passes on. The others wait until
// they are woken, or it is their turn to read.
//
// What else ends the reader's wait interrupts it: the end of its context, Close, and
// completions that another goroutine gives back. Each says first what it is about, and
// interrupts then; a reader first says whose it is, and looks then; so none is missed.

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
	turn   chan struct{}                 // holds one while somebody reads, and after Close
	reader atomic.Pointer[ibvCQ]         // whose waiter that is
	broken atomic.Pointer[syscall.Errno] // why it can be read no more

	events *fdWaiter                    // for whose turn it is, as what follows
	got    *[maxEvents]*C.struct_ibv_cq // what was read last: the first n
	n      int
}

// maxEvents is how many completion events one call into C reads at most.
const maxEvents = 16

// newIBVCompChannel has yet to be given what reads its events.
func newIBVCompChannel(d *ibvDevice) *ibvCompChannel {
	got := new([maxEvents]uintptr) // numbers to Go, which follows no pointers of C's
	return &ibvCompChannel{cqs: &d.cqs, turn: make(chan struct{}, 1), got: (*[maxEvents]*C.struct_ibv_cq)(unsafe.Pointer(got))}
}

func (d *ibvDevice) CreateCompChannel() (ProviderCompChannel, error) {
	c := newIBVCompChannel(d)
	if err := errnoErr(C.rv_create_comp_channel(d.ctx, &c.ch)); err != nil {
		return nil, err
	}
	var err error
	// Mostly one event comes at a time: then it is not asked for a second one before
	// the first has been acted on.
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

// Sleep waits until the CQ was woken or closed, or ctx or owner has ended; if nobody reads
// the channel it does so meanwhile.
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

// SleepMakesProgress returns false: the device needs no goroutine to make progress.
func (c *ibvCQ) SleepMakesProgress() bool { return false }

// WakeSleeper has the goroutine that reads the channel, if it waits on this CQ, look at
// the CQ.
func (c *ibvCQ) WakeSleeper() {
	if ch := c.channel; ch != nil && ch.reader.Load() == c {
		ch.events.Interrupt()
	}
}

// readForAll reads until there is an event of this CQ, or something else for who waits on it.
func (c *ibvCQ) readForAll(ctx, owner context.Context, woken <-chan struct{}) {
	ch := c.channel
	ch.reader.Store(c)
	for mine := false; !mine && c.mayRead(ctx, owner, woken); {
		switch err := ch.events.wait(); err {
		case nil:
			mine = ch.passOn(c)
		case errTick:
			ch.events.resume() // and looks what it was
		default:
			ch.breaks(err)
		}
	}
	ch.reader.Store(nil)
}

// mayRead is false if there is something else to do; whatever comes up then interrupts.
func (c *ibvCQ) mayRead(ctx, owner context.Context, woken <-chan struct{}) bool {
	select {
	case <-woken:
		return false
	default:
	}
	return ctx.Err() == nil && owner.Err() == nil && c.channel.broken.Load() == nil && c.watch(ctx, owner)
}

// watch has the end of either context interrupt the reader; false if the CQ is closed.
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

// passOn wakes those whose events were read; true if own is among them, which is awake.
func (ch *ibvCompChannel) passOn(own *ibvCQ) (mine bool) {
	for _, cq := range ch.got[:ch.n] {
		p, ok := ch.cqs.find(cq)
		if !ok {
			continue // it has been closed since
		}
		if p.unread.Store(0); p == own {
			mine = true
		} else {
			p.wake()
		}
	}
	return mine
}

// drain reads what has come, if nobody else does: a CQ that is armed and polled again and
// again, without a wait that sleeps, would have its events lie in the kernel's memory.
func (ch *ibvCompChannel) drain() {
	select {
	case ch.turn <- struct{}{}:
	default:
		return // the reader gets them
	}
	ch.events.resume() // somebody may have been interrupted who reads no more
	err := ch.events.now()
	for ; err == nil; err = ch.events.now() {
		ch.passOn(nil)
	}
	if err != syscall.EAGAIN && err != errTick {
		ch.breaks(err)
	}
	<-ch.turn
}

// breaks ends the waits of all.
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

// Close keeps the turn to read: the last reader gives it back soon, because its CQ is closed. If
// the channel is not destroyed, the next reader takes the turn.
func (ch *ibvCompChannel) Close() error {
	ch.turn <- struct{}{}
	if err := errnoErr(C.rv_destroy_comp_channel(ch.ch)); err != nil {
		<-ch.turn
		return err
	}
	_ = ch.events.close() // the channel is gone, whatever becomes of the duplicate
	return nil
}
