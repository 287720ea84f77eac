// Spinning: a goroutine that polls with verbs.WaitOptions.Spin receives packets itself. It receives
// without waiting, so it takes the turn for a moment only, between two polls.
//
//  1. The first DriveOnce interrupts the goroutine that receives: the port's, or one that waits for a completion. While DriveOnce
//     is called again and again, nobody waits for packets, and it wakes those whose completions come.
//     DriveOnce looks only at its CQ's home. Elsewhere the receivers' goroutines go on.
//  2. When a spin ends, the goroutine will probably poll or wait again soon, so nobody receives. A goroutine that begins to wait
//     receives at once. Otherwise the port's goroutine looks every millisecond, and receives again, or lets one receive that waits
//     already, if nobody has received since its last look.
//  3. If a completion for the polled CQ arrives, the answer leaves with what the program posts next,
//     with the next DriveOnce or, after two milliseconds at most, by the port's goroutine.

package softroce

import (
	"sync/atomic"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
)

// Drives returns false if a link must wait for packets, as on a simulated network, and if threads
// of C drive the device.
func (c *cq) Drives() bool { return c.d.canSpin && c.d.standby == nil }

const (
	// yieldAfter is the number of calls of DriveOnce in a row that receive nothing, after which it yields. A yield
	// takes as long as such a call, and a packet may come meanwhile.
	yieldAfter = 8
	// dear is how long a yield takes if a program ran that had nothing to do with it. Then the next yields are rarer: each
	// may cost a time slice.
	dear = time.Millisecond
	// rarest limits how rare they become, as a power of two.
	rarest = 10
)

// yields decides when a goroutine that polls yields the processor.
type yields struct {
	inVain atomic.Uint32 // calls of DriveOnce in a row that received nothing
	rare   atomic.Uint32 // yields that were dear, less the others; 0 to rarest
}

// after notes whether a call of DriveOnce received something, and yields if it is time.
func (y *yields) after(received bool, yield func()) {
	if received {
		y.inVain.Store(0)
		return
	}
	rare := y.rare.Load()
	if y.inVain.Add(1)%(yieldAfter<<rare) != 0 {
		return
	}
	began := time.Now()
	yield()
	if time.Since(began) > dear {
		y.rare.Store(min(rare+1, rarest))
	} else if rare > 0 {
		y.rare.Store(rare - 1)
	}
}

// DriveOnce receives what has arrived for the CQ's queue pairs, and sends what follows. It does not wait for packets. If
// nothing comes, it yields the processor, and after an error of the system it pauses.
func (c *cq) DriveOnce() {
	if r := c.home.Load(); r != nil && !c.closed.Load() {
		c.yields.after(r.receiveFor(c), link.Yield)
	}
}

// receiveFor receives what has arrived at the port, for a goroutine that polls a CQ. It returns true if something
// has arrived. If another goroutine receives at this moment, receiveFor interrupts its wait and returns at once.
func (r *receiver) receiveFor(c *cq) (received bool) {
	if !r.Hold(c.spins) {
		return false
	}
	defer r.Give()
	r.led.Add(1)
	return r.round(c, r.try) == nil
}

// DriveEnd says that the calls of DriveOnce end.
func (c *cq) DriveEnd() {
	if r := c.home.Load(); r != nil {
		r.Free()
	}
}
