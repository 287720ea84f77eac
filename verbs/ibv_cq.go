//go:build linux && cgo

// The C wall: completion channels and completion queues.

package verbs

// #include "ibv_shim.h"
import "C"

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs/internal/ccall"
)

// WC and struct ibv_wc are one layout: completions are written straight into the
// caller's slice. Neither line compiles if the size or a late field differs.
var (
	_ [unsafe.Sizeof(WC{}) - C.sizeof_struct_ibv_wc]byte
	_ [C.sizeof_struct_ibv_wc - unsafe.Sizeof(WC{})]byte
	_ [unsafe.Offsetof(WC{}.immOrRKey) - unsafe.Offsetof(C.struct_ibv_wc{}.anon0)]byte
	_ [unsafe.Offsetof(WC{}.Flags) - unsafe.Offsetof(C.struct_ibv_wc{}.wc_flags)]byte
	_ [unsafe.Offsetof(WC{}.DLIDPath) - unsafe.Offsetof(C.struct_ibv_wc{}.dlid_path_bits)]byte
)

// ibvCompChannel is struct ibv_comp_channel with the goroutine that reads it.
type ibvCompChannel struct {
	ch     *C.struct_ibv_comp_channel
	cqs    *ibvTable[*C.struct_ibv_cq, *ibvCQ]
	events *fdWaiter
	got    *[maxEvents]*C.struct_ibv_cq // what was read last: the first n
	n      int
	broken atomic.Pointer[syscall.Errno] // why it can be read no more
}

// maxEvents is how many completion events one call into C reads at most.
const maxEvents = 16

func (d *ibvDevice) CreateCompChannel() (CompChannelProvider, error) {
	// To Go these are numbers: it follows no pointers of C's.
	got := unsafe.Pointer(new([maxEvents]uintptr))
	c := &ibvCompChannel{cqs: &d.cqs, got: (*[maxEvents]*C.struct_ibv_cq)(got)}
	if err := errnoErr(C.rv_create_comp_channel(d.ctx, &c.ch)); err != nil {
		return nil, err
	}
	var err error
	// Mostly one event comes at a time: then it is not asked for a second one before
	// the first has woken somebody.
	most := 1
	get := func() syscall.Errno {
		n := int(ccall.Call(hotGetEvents, address(c.ch), uintptr(most), 0, 0, got))
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
	go c.read()
	return c, nil
}

// read turns events into wake-ups until the channel is closed or breaks.
func (c *ibvCompChannel) read() {
	for {
		if err := c.events.wait(); err != nil {
			if err != net.ErrClosed {
				errno := errnoOf(err)
				if errno == 0 {
					errno = syscall.EIO
				}
				c.broken.Store(&errno)
				c.cqs.each(func(cq *ibvCQ) {
					if cq.channel == c {
						cq.wake()
					}
				})
			}
			return
		}
		for _, cq := range c.got[:c.n] {
			if p, ok := c.cqs.find(cq); ok {
				p.wake()
			}
		}
	}
}

func (c *ibvCompChannel) Close() error {
	if err := c.events.close(); err != nil {
		return err
	}
	return errnoErr(C.rv_destroy_comp_channel(c.ch))
}

// ibvCQ is struct ibv_cq, and struct ibv_cq_ex if it was made with more.
type ibvCQ struct {
	depth   atomic.Int32
	table   *ibvTable[*C.struct_ibv_cq, *ibvCQ]
	channel *ibvCompChannel // nil: no events
	wake    func()

	mu    sync.Mutex
	cq    *C.struct_ibv_cq // nil after Close
	ex    WCExFlags        // 0: not extended
	alone bool             // extended completions are taken one by one; see walksWrongly
}

func (d *ibvDevice) CompVectors() int { return int(d.ctx.num_comp_vectors) }

func (d *ibvDevice) CreateCQ(init CQInitProvider) (CQProvider, error) {
	var channel *C.struct_ibv_comp_channel
	owner, _ := init.Channel.(*ibvCompChannel)
	if owner != nil {
		channel = owner.ch
	}
	if init.Depth < 0 || int(C.int(init.Depth)) != init.Depth || init.Vector < 0 || int(C.int(init.Vector)) != init.Vector {
		return nil, syscall.EINVAL
	}
	var cq *C.struct_ibv_cq
	var alone bool
	var err error
	if init.Ex != 0 || init.Flags != 0 {
		if alone, err = d.walksWrongly(); err == nil {
			cq, err = d.createCQEx(init, channel)
		}
	} else {
		err = errnoErr(C.rv_create_cq(d.ctx, C.int(init.Depth), channel, C.int(init.Vector), &cq))
	}
	if err != nil {
		return nil, err
	}
	c := newIBVCQ(unsafe.Pointer(cq), &d.cqs)
	c.channel, c.wake, c.ex, c.alone = owner, init.Wake, init.Ex, alone
	d.cqs.put(cq, c)
	return c, nil
}

// newIBVCQ makes the Go side of a struct ibv_cq *; see newIBVQP.
func newIBVCQ(p unsafe.Pointer, table *ibvTable[*C.struct_ibv_cq, *ibvCQ]) *ibvCQ {
	cq := (*C.struct_ibv_cq)(p)
	c := &ibvCQ{table: table, cq: cq}
	c.depth.Store(int32(cq.cqe))
	return c
}

func (c *ibvCQ) Depth() int { return int(c.depth.Load()) }

func (c *ibvCQ) Resize(depth int) error {
	if depth < 0 || int(C.int(depth)) != depth {
		return syscall.EINVAL
	}
	c.mu.Lock() // libibverbs' providers swap the queue under those who poll
	defer c.mu.Unlock()
	if err := errnoErr(C.rv_resize_cq(c.cq, C.int(depth))); err != nil {
		return err
	}
	c.depth.Store(int32(c.cq.cqe))
	return nil
}

func (c *ibvCQ) Moderate(count int, period time.Duration) error {
	return errnoErr(C.rv_moderate_cq(c.cq, C.uint16_t(count), C.uint16_t(period.Microseconds())))
}

func (c *ibvCQ) Poll(wcs []WC) (int, error) { return c.Spin(wcs, 1) }

// pollsAtOnce is how many polls one call into C makes at most: some microseconds of them.
const pollsAtOnce = 1024

// Spin holds the lock until it returns: C must not poll a CQ that Close destroys.
func (c *ibvCQ) Spin(wcs []WC, polls int) (int, error) {
	if len(wcs) == 0 {
		return 0, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cq == nil {
		return 0, net.ErrClosed
	}
	n := 0
	for ; n == 0 && polls > 0; polls -= pollsAtOnce {
		n = int(ccall.Call(hotPoll, address(c.cq), uintptr(min(polls, pollsAtOnce)), uintptr(len(wcs)), 0, unsafe.Pointer(&wcs[0])))
	}
	if n < 0 {
		return 0, syscall.Errno(-n)
	}
	for i := range wcs[:n] {
		wcs[i].toHostOrder()
	}
	return n, nil
}

// toHostOrder turns an immediate, which C leaves as it came over the wire.
func (wc *WC) toHostOrder() {
	if wc.Flags&WCWithImm != 0 {
		wc.immOrRKey = hostOrder32(wc.immOrRKey)
	}
}

func (c *ibvCQ) Arm(solicitedOnly bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cq == nil {
		return net.ErrClosed
	}
	if c.channel != nil {
		if errno := c.channel.broken.Load(); errno != nil {
			return *errno
		}
	}
	if errno := ccall.Call(hotArm, address(c.cq), truth(solicitedOnly), 0, 0, nil); errno != 0 {
		return syscall.Errno(errno)
	}
	return nil
}

func (c *ibvCQ) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table.drop(c.cq) // before the address can be another CQ's
	if err := errnoErr(C.rv_destroy_cq(c.cq)); err != nil {
		c.table.put(c.cq, c)
		return err
	}
	c.cq = nil
	return nil
}
