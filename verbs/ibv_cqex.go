//go:build linux && cgo && !nolibibverbs

// The C wall: extended completion queues. A call into C starts, reads and ends a batch and fills the
// caller's slice.

package verbs

// #include "ibv_shim.h"
import "C"

import (
	"net"
	"syscall"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs/internal/ccall"
)

// WCEx and struct rv_wc_ex have the same layout; see WC.
var (
	_ [unsafe.Sizeof(WCEx{}) - C.sizeof_struct_rv_wc_ex]byte
	_ [C.sizeof_struct_rv_wc_ex - unsafe.Sizeof(WCEx{})]byte
	_ [unsafe.Offsetof(WCEx{}.Timestamp) - unsafe.Offsetof(C.struct_rv_wc_ex{}.timestamp)]byte
	_ [unsafe.Offsetof(WCEx{}.CVLAN) - unsafe.Offsetof(C.struct_rv_wc_ex{}.cvlan)]byte
)

// ibvWCEx is the set of fields that rv_poll_cq_ex reads.
const ibvWCEx = WCExStandard | WCExTimestamp | WCExCVLAN | WCExFlowTag | WCExWallclock

func (d *ibvDevice) createCQEx(init ProviderCQInit, channel *C.struct_ibv_comp_channel) (cq *C.struct_ibv_cq, err error) {
	if init.Ex&^ibvWCEx != 0 {
		return nil, syscall.EOPNOTSUPP
	}
	err = errnoErr(C.rv_create_cq_ex(d.ctx, C.uint32_t(init.Depth), channel, C.uint32_t(init.Vector),
		C.uint64_t(init.Ex), C.uint32_t(init.Flags), &cq))
	return cq, err
}

// walksWrongly reports whether completions must be read one by one, so that the provider never
// reaches the end of a batch. Before rdma-core 55 the rxe provider lost its position there and
// returned a completion that did not exist. Before rdma-core 59 it released its lock twice.
func (d *ibvDevice) walksWrongly() (bool, error) {
	attr, err := d.QueryDevice()
	return attr.VendorID == VendorRXE, err
}

func (c *ibvCQ) PollEx(wcs []WCEx) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cq == nil {
		return 0, net.ErrClosed
	}
	if c.ex == 0 {
		return 0, syscall.EINVAL
	}
	if len(wcs) == 0 {
		return 0, nil
	}
	n := c.pollEx(wcs[:min(len(wcs), manyAtOnce)])
	if n < 0 {
		return 0, syscall.Errno(-n)
	}
	return pollRest(wcs, n, c.pollEx), nil
}

// pollEx returns the number of completions, or a negative errno.
func (c *ibvCQ) pollEx(wcs []WCEx) int {
	return int(ccall.Call(hotPollEx, address(c.cq), uintptr(c.ex), boolArg(c.alone), uintptr(len(wcs)), unsafe.Pointer(&wcs[0])))
}
