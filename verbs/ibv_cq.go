//go:build linux && cgo

// The C wall: completion channels and completion queues.

package verbs

// #cgo noescape rv_poll_cq
// #cgo nocallback rv_poll_cq
// #include "ibv_shim.h"
import "C"

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
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

// ibvCQTable finds the Go side of a CQ that an event names by its C address.
type ibvCQTable struct {
	mu sync.Mutex
	of map[*C.struct_ibv_cq]*ibvCQ
}

func (t *ibvCQTable) put(cq *ibvCQ) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = make(map[*C.struct_ibv_cq]*ibvCQ)
	}
	t.of[cq.cq] = cq
}

func (t *ibvCQTable) drop(cq *ibvCQ) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, cq.cq)
}

// find is nil for a CQ that has been destroyed since.
func (t *ibvCQTable) find(cq *C.struct_ibv_cq) *ibvCQ {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[cq]
}

// wakeAll wakes the waiters of every CQ of a channel.
func (t *ibvCQTable) wakeAll(ch *ibvCompChannel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, cq := range t.of {
		if cq.channel == ch {
			cq.wake()
		}
	}
}

// ibvCompChannel is struct ibv_comp_channel with the goroutine that reads it.
type ibvCompChannel struct {
	ch     *C.struct_ibv_comp_channel
	cqs    *ibvCQTable
	events *fdWaiter
	broken atomic.Pointer[syscall.Errno] // why it can be read no more
}

func (d *ibvDevice) CreateCompChannel() (CompChannelProvider, error) {
	c := &ibvCompChannel{cqs: &d.cqs}
	if err := errnoErr(C.rv_create_comp_channel(d.ctx, &c.ch)); err != nil {
		return nil, err
	}
	var err error
	if c.events, err = newFDWaiter(int(c.ch.fd), "completion channel of "+d.name); err != nil {
		C.rv_destroy_comp_channel(c.ch)
		return nil, err
	}
	go c.read()
	return c, nil
}

// maxEvents is how many completion events one call into C reads at most.
const maxEvents = 16

// read turns events into wake-ups until the channel is closed or breaks.
func (c *ibvCompChannel) read() {
	var got [maxEvents]*C.struct_ibv_cq
	var n C.int
	get := func() syscall.Errno { return syscall.Errno(C.rv_get_cq_events(c.ch, &got[0], maxEvents, &n)) }
	for {
		if err := c.events.wait(get); err != nil {
			if err != net.ErrClosed {
				errno := errnoOf(err)
				if errno == 0 {
					errno = syscall.EIO
				}
				c.broken.Store(&errno)
				c.cqs.wakeAll(c)
			}
			return
		}
		for _, cq := range got[:n] {
			if p := c.cqs.find(cq); p != nil {
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

// ibvCQ is struct ibv_cq.
type ibvCQ struct {
	depth   int
	table   *ibvCQTable
	channel *ibvCompChannel // nil: no events
	wake    func()

	mu sync.Mutex
	cq *C.struct_ibv_cq // nil after Close
}

func (d *ibvDevice) CreateCQ(depth int, ch CompChannelProvider, vector int, wake func()) (CQProvider, error) {
	var channel *C.struct_ibv_comp_channel
	owner, _ := ch.(*ibvCompChannel)
	if owner != nil {
		channel = owner.ch
	}
	if depth < 0 || int(C.int(depth)) != depth {
		return nil, syscall.EINVAL
	}
	var cq *C.struct_ibv_cq
	if err := errnoErr(C.rv_create_cq(d.ctx, C.int(depth), channel, C.int(vector), &cq)); err != nil {
		return nil, err
	}
	c := newIBVCQ(unsafe.Pointer(cq), &d.cqs)
	c.channel, c.wake = owner, wake
	d.cqs.put(c)
	return c, nil
}

// newIBVCQ makes the Go side of a struct ibv_cq *; see newIBVQP.
func newIBVCQ(p unsafe.Pointer, table *ibvCQTable) *ibvCQ {
	cq := (*C.struct_ibv_cq)(p)
	return &ibvCQ{depth: int(cq.cqe), table: table, cq: cq}
}

func (c *ibvCQ) Depth() int { return c.depth }

func (c *ibvCQ) Poll(wcs []WC) (int, error) {
	if len(wcs) == 0 {
		return 0, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cq == nil {
		return 0, net.ErrClosed
	}
	n := int(C.rv_poll_cq(c.cq, C.int(len(wcs)), unsafe.Pointer(&wcs[0])))
	if n < 0 {
		return 0, syscall.Errno(-n)
	}
	for i := range wcs[:n] {
		if wcs[i].Flags&WCWithImm != 0 {
			wcs[i].immOrRKey = hostOrder32(wcs[i].immOrRKey)
		}
	}
	return n, nil
}

func (c *ibvCQ) Arm(solicitedOnly bool) error {
	var flag C.int
	if solicitedOnly {
		flag = 1
	}
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
	return errnoErr(C.rv_req_notify_cq(c.cq, flag))
}

func (c *ibvCQ) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table.drop(c) // before the address can be another CQ's
	if err := errnoErr(C.rv_destroy_cq(c.cq)); err != nil {
		c.table.put(c)
		return err
	}
	c.cq = nil
	return nil
}
