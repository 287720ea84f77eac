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

// ibvCompChannel is struct ibv_comp_channel.
type ibvCompChannel struct {
	ch     *C.struct_ibv_comp_channel
	cqs    *ibvCQTable
	events *fdWaiter

	// The last events read; made with the channel so that waiting allocates nothing.
	got  [maxEvents]*C.struct_ibv_cq
	n    C.int
	read func() syscall.Errno
}

// maxEvents is how many completion events one call into C reads at most.
const maxEvents = 16

func (d *ibvDevice) CreateCompChannel() (CompChannelProvider, error) {
	c := &ibvCompChannel{cqs: &d.cqs}
	c.read = func() syscall.Errno { return syscall.Errno(C.rv_get_cq_events(c.ch, &c.got[0], maxEvents, &c.n)) }
	if err := errnoErr(C.rv_create_comp_channel(d.ctx, &c.ch)); err != nil {
		return nil, err
	}
	var err error
	if c.events, err = newFDWaiter(int(c.ch.fd), "completion channel of "+d.name); err != nil {
		C.rv_destroy_comp_channel(c.ch)
		return nil, err
	}
	return c, nil
}

func (c *ibvCompChannel) Next(cqs []CQProvider) ([]CQProvider, error) {
	if err := c.events.wait(c.read); err != nil {
		return cqs, err
	}
	for _, cq := range c.got[:c.n] {
		if p := c.cqs.find(cq); p != nil {
			cqs = append(cqs, p)
		}
	}
	return cqs, nil
}

func (c *ibvCompChannel) Close() error {
	if err := c.events.close(); err != nil {
		return err
	}
	return errnoErr(C.rv_destroy_comp_channel(c.ch))
}

// ibvCQ is struct ibv_cq.
type ibvCQ struct {
	depth int
	table *ibvCQTable

	mu sync.Mutex
	cq *C.struct_ibv_cq // nil after Close
}

func (d *ibvDevice) CreateCQ(depth int, ch CompChannelProvider, vector int) (CQProvider, error) {
	var channel *C.struct_ibv_comp_channel
	if ch != nil {
		channel = ch.(*ibvCompChannel).ch
	}
	if depth < 0 || int(C.int(depth)) != depth {
		return nil, syscall.EINVAL
	}
	var cq *C.struct_ibv_cq
	if err := errnoErr(C.rv_create_cq(d.ctx, C.int(depth), channel, C.int(vector), &cq)); err != nil {
		return nil, err
	}
	c := newIBVCQ(unsafe.Pointer(cq), &d.cqs)
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
