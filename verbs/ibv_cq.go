//go:build linux && cgo && !nolibibverbs

// The C wall: completion queues.

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

	"github.com/rawverbs/rawverbs/internal/sync/ctxwatch"
	"github.com/rawverbs/rawverbs/internal/sync/turn"
	"github.com/rawverbs/rawverbs/verbs/internal/ccall"
)

// WC and struct ibv_wc have the same layout, because C writes completions directly into the caller's
// slice. These lines do not compile if the size or the offset of a later field differs.
var (
	_ [unsafe.Sizeof(WC{}) - C.sizeof_struct_ibv_wc]byte
	_ [C.sizeof_struct_ibv_wc - unsafe.Sizeof(WC{})]byte
	_ [unsafe.Offsetof(WC{}.immOrRKey) - unsafe.Offsetof(C.struct_ibv_wc{}.anon0)]byte
	_ [unsafe.Offsetof(WC{}.Flags) - unsafe.Offsetof(C.struct_ibv_wc{}.wc_flags)]byte
	_ [unsafe.Offsetof(WC{}.DLIDPath) - unsafe.Offsetof(C.struct_ibv_wc{}.dlid_path_bits)]byte
)

// ibvCQ is struct ibv_cq, or struct ibv_cq_ex if it was made with Ex or Flags.
type ibvCQ struct {
	depth   atomic.Int32
	table   *ibvTable[*C.struct_ibv_cq, *ibvCQ]
	channel *ibvCompChannel // nil: no events
	wake    func()
	overran func()

	mu    sync.Mutex
	cq    *C.struct_ibv_cq // nil after Close
	ex    WCExFlags        // 0: not extended
	alone bool             // read extended completions one by one; see walksWrongly

	// The channel's mutex guards these. It is not held during other calls of the CQ into C.
	sleepers turn.Waiters      // goroutines in Sleep
	unread   int               // calls of Arm since an event was read
	watched  [2]ctxwatch.Watch // the contexts of the goroutine that read last
	closed   bool              // nobody may sleep any more
}

func (d *ibvDevice) CompVectors() int { return int(d.ctx.num_comp_vectors) }

func (d *ibvDevice) CreateCQ(init ProviderCQInit) (ProviderCQ, error) {
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
	c.channel, c.wake, c.overran, c.ex, c.alone = owner, init.Wake, init.Overran, init.Ex, alone
	d.cqs.put(cq, c)
	d.startWatch()
	return c, nil
}

// lost passes on that a completion was lost, and wakes the goroutines that wait.
func (c *ibvCQ) lost() {
	if c.overran != nil {
		c.overran()
	}
	if c.channel != nil {
		c.wake()
		c.WakeSleeper()
	}
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
	c.mu.Lock() // libibverbs' providers replace the queue, so nobody may poll meanwhile
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

// Limits of one call into C, because the garbage collector waits for the call: some microseconds on
// most devices. On devices whose polls are system calls, such as hfi1's, 128 polls take a tenth of
// a millisecond.
const (
	pollsAtOnce = 128 // polls that find nothing
	manyAtOnce  = 256 // receives, completions, or sends through cgo
)

// Spin holds the lock until it returns, because C must not poll a CQ that Close destroys.
func (c *ibvCQ) Spin(wcs []WC, polls int) (int, error) {
	if len(wcs) == 0 {
		return 0, nil
	}
	c.mu.Lock() // without defer, which costs a quarter of this function; nothing here panics
	if c.cq == nil {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	var n int
	if polls <= pollsAtOnce && len(wcs) <= manyAtOnce {
		n = c.poll(wcs, polls)
	} else {
		n = c.pollMany(wcs, polls)
	}
	c.mu.Unlock()
	if n < 0 {
		return 0, syscall.Errno(-n)
	}
	return n, nil
}

// pollMany is poll with more polls, or for more completions, than one call may take.
func (c *ibvCQ) pollMany(wcs []WC, polls int) (n int) {
	for first := wcs[:min(len(wcs), manyAtOnce)]; n == 0 && polls > 0; polls -= pollsAtOnce {
		n = c.poll(first, min(polls, pollsAtOnce))
	}
	return pollRest(wcs, n, func(rest []WC) int { return c.poll(rest, 1) })
}

// poll returns the number of completions, or a negative errno.
func (c *ibvCQ) poll(wcs []WC, polls int) int {
	return int(ccall.Call(hotPoll, address(c.cq), uintptr(polls), uintptr(len(wcs)), 0, unsafe.Pointer(&wcs[0])))
}

// pollRest continues to poll if the first call returned as many completions as one call can. It
// returns the total number. The next poll reports an error of these polls.
func pollRest[T any](wcs []T, n int, poll func(rest []T) int) int {
	for got := n; got == manyAtOnce && n < len(wcs); n += got {
		if got = poll(wcs[n:min(n+manyAtOnce, len(wcs))]); got < 0 {
			break
		}
	}
	return n
}

func (c *ibvCQ) Arm(solicitedOnly bool) error {
	if c.channel != nil {
		if err := c.arms(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cq == nil {
		return net.ErrClosed
	}
	if errno := ccall.Call(hotArm, address(c.cq), boolArg(solicitedOnly), 0, 0, nil); errno != 0 {
		return syscall.Errno(errno)
	}
	return nil
}

func (c *ibvCQ) Close() error {
	if err := c.destroy(); err != nil {
		return err
	}
	c.endSleeps()
	return nil
}

func (c *ibvCQ) destroy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table.drop(c.cq) // before another CQ can get the address
	if err := errnoErr(C.rv_destroy_cq(c.cq)); err != nil {
		c.table.put(c.cq, c)
		if c.channel != nil { // events may have been read and dropped meanwhile
			c.wake()
			c.WakeSleeper()
		}
		return err
	}
	c.cq = nil
	return nil
}
