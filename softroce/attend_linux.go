// Attending: threads of another language receive and send for the device (cabi). They cannot park
// in the Go runtime cheaply, so they wait for the sockets themselves and call Drive.
//
//  1. Attend takes the ports' sockets off the runtime's poller, and ends the ports' goroutines. It leaves one socket
//     per port, because each Drive looks at all.
//     The links of multicast groups stay on the poller, and keep their goroutines (groups.go).
//  2. A thread that finds no completion calls Drive, which receives what has arrived and sends
//     what follows. If a completion results, the device owes an answer: it leaves with the thread's
//     next post, the next Drive or, some milliseconds later, by the keeper.
//  3. The keeper, a thread of its own, receives if nobody has driven for a millisecond. While others
//     drive, it looks once per millisecond. While nothing arrives and nothing is owed, it sleeps.
//     What wakes it for other reasons (call) wakes no thread that waits for packets.
//  4. The completions of datagrams are those that programs in C know (NetworkInSL).

package softroce

import (
	"encoding/binary"
	"math"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	keeperTick = time.Millisecond
	// manyDrives is the number of calls of Drive in a tick after which the keeper does not look for packets in the
	// next one. If fewer come, a packet may have to wait for the next call.
	manyDrives = 8
)

// keeper receives for a device that is attended.
type keeper struct {
	d         *device
	packets   int           // an epoll descriptor, readable while packets wait
	mu        sync.Mutex    // held while call is written or closed
	call      int           // an eventfd that ends the keeper's sleep
	drives    atomic.Uint64 // calls of Drive
	attending *int32        // threads that wait for the packets; the caller of Attend counts them
	idle      atomic.Bool   // the keeper sleeps until a packet arrives
	closing   atomic.Bool
	polls     bool // a wait may begin with polling
	patience  patience
}

// Attend makes the callers of Drive and the keeper receive packets. It returns a descriptor that is
// readable while packets wait; poll it, but do not read it. *attending is the number of threads
// that wait for the descriptor and will call Drive. Attend must be called before any object is
// made. If it fails, the device can only be closed.
func (d *device) Attend(attending *int32) (packets int, err error) {
	k := &keeper{d: d, attending: attending, packets: -1, call: -1, polls: mayPoll()}
	if err := k.open(); err != nil {
		k.free()
		return -1, err
	}
	d.keeper = k
	d.engine.NetworkInSL()
	d.loops.Go(k.run)
	return k.packets, nil
}

// detachable is a link whose socket can leave the runtime's poller.
type detachable interface{ Detach() (fd int, err error) }

func (k *keeper) open() (err error) {
	if k.packets, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return errors.WithMessage(err, "epoll_create1")
	}
	if k.call, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return errors.WithMessage(err, "eventfd")
	}
	for _, r := range k.d.receivers {
		if _, ok := r.link.(detachable); !ok {
			return syscall.EOPNOTSUPP // a simulated network
		}
		r.retired.Store(true)
		r.Call()
	}
	k.d.loops.Wait() // for the ports' goroutines
	k.d.oneVector()
	for _, r := range k.d.receivers {
		r.pollsFirst = false
		fd, err := r.link.(detachable).Detach()
		if err != nil {
			return err
		}
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
		if err := unix.EpollCtl(k.packets, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return errors.WithMessage(err, "epoll_ctl")
		}
	}
	return nil
}

func (k *keeper) free() {
	k.mu.Lock()
	defer k.mu.Unlock()
	unix.Close(k.packets)
	unix.Close(k.call)
	k.call = -1
}

// Drive receives what has arrived at the device, without waiting, and sends what follows. stream reports
// whether much moves in one direction; received, whether packets had arrived; missed, whether another thread
// receives at this moment.
func (c *cq) Drive() (stream, received, missed bool) {
	k := c.d.keeper
	k.drives.Add(1)
	did := k.drive(c)
	if did.owes && k.idle.Load() && k.idle.Swap(false) {
		k.wake() // if this thread does not return, the keeper sends the answer
	}
	// The timer's thread may have to wait for a processor. An answer that has arrived counts first.
	if at, ok := c.d.engine.Deadline(); ok && at <= c.d.now() {
		c.d.alarm.ring()
	}
	return c.d.traffic.stream.Load(), did.received, did.missed
}

// Flush sends what the device owes its peers, before the process ends without Close.
func (d *device) Flush() {
	for _, r := range d.receivers {
		r.lock() // so that a thread which receives has finished
		r.settle()
		r.unlock()
	}
	d.engine.EndWaits()
	d.posters[0].drive(math.MaxInt)
	d.waitUntilSent()
}

// round is what a round of receiving did.
type round struct {
	received bool
	missed   bool // another thread receives for a port at this moment
	owes     bool // an answer is left to the next round
}

// drive is one round for each port. If a completion for c results, it leaves the answer to the next.
func (k *keeper) drive(c *cq) (did round) {
	for _, r := range k.d.receivers {
		if !r.Try(r.own) {
			did.missed = true
			continue
		}
		r.settle()
		before := pushedTo(c)
		switch err := r.take(); {
		case err == nil:
			did.received = true
			if r.owes = pushedTo(c) != before; !r.owes {
				r.answer()
			}
			did.owes = did.owes || r.owes
		case !errors.Is(err, link.ErrInterrupted) && !errors.Is(err, net.ErrClosed):
			r.failed()
		}
		r.Give()
	}
	return did
}

// run is the keeper's thread.
func (k *keeper) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer k.free()
	for seen := uint64(0); ; {
		before := seen
		seen = k.drives.Load()
		if seen-before >= manyDrives && !k.closing.Load() {
			k.pause()
			continue
		}
		packets, err := k.wait(seen, seen != before)
		if k.closing.Load() {
			return
		}
		if err != nil {
			k.d.events.Put(verbs.AsyncEvent{Type: verbs.EventDeviceFatal})
			return
		}
		if packets && (k.drives.Load() != seen || atomic.LoadInt32(k.attending) > 0) {
			k.pause() // other threads receive, probably
		}
		for packets && k.drives.Load() == seen && !k.closing.Load() {
			did := k.drive(nil)
			if did.missed {
				k.pause() // a thread is in Drive for long
			}
			// A stream goes on: save the system call that waits.
			packets = did.received && k.d.traffic.stream.Load()
		}
	}
}

// pause leaves the packets to other threads for a tick.
func (k *keeper) pause() {
	tick := unix.NsecToTimespec(int64(keeperTick))
	_ = unix.Nanosleep(&tick, nil)
}

// wait waits for packets: for a tick or, if nobody has driven since seen and nothing is owed, forever.
func (k *keeper) wait(seen uint64, tick bool) (packets bool, err error) {
	timeout := int(keeperTick / time.Millisecond)
	if !tick {
		k.idle.Store(true) // before the locks are tried: a thread that has one now will look
		for _, r := range k.d.receivers {
			if r.Try(r.own) {
				r.settle()
				r.Give()
			}
		}
		if k.drives.Load() == seen {
			timeout = -1
		}
	}
	ready := []unix.PollFd{{Fd: int32(k.packets), Events: unix.POLLIN}, {Fd: int32(k.call), Events: unix.POLLIN}}
	if timeout, err = k.poll(ready, timeout); err == nil {
		_, err = unix.Poll(ready, timeout)
	}
	k.idle.Store(false)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return false, err
	}
	if ready[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(k.call, count[:])
	}
	return ready[0].Revents != 0, nil
}

// poll polls for a moment if there is a stream; await.go has the reasons. It returns the timeout of the wait that is left.
func (k *keeper) poll(ready []unix.PollFd, timeout int) (left int, err error) {
	if k.polls && k.d.traffic.stream.Load() && k.patience.poll(time.Now(), func() (came, stop bool) {
		var n int
		n, err = unix.Poll(ready, 0)
		return n > 0 || err != nil, false
	}) {
		timeout = 0
	}
	return timeout, err
}

// wake ends the keeper's sleep.
func (k *keeper) wake() {
	k.mu.Lock()
	defer k.mu.Unlock()
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(k.call, one[:]) // it fails after free, or if the counter is full and the keeper awake
}

// end makes the keeper's thread return.
func (k *keeper) end() {
	k.closing.Store(true)
	k.wake()
}
