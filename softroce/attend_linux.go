// Attending: threads of another language receive and send for the device (cabi). They cannot park
// in the Go runtime cheaply, so they wait for the sockets themselves and call Drive.
//
//  1. Attend takes the ports' sockets off the runtime's poller, and ends the ports' goroutines. It leaves one socket
//     per port, because each Drive looks at all.
//     The links of multicast groups stay on the poller, and keep their goroutines (groups.go).
//  2. A thread that finds no completion calls Drive, which receives what has arrived and sends
//     what follows. If a completion results, the device owes an answer: it leaves with the thread's
//     next post, the next Drive or, some milliseconds later, by the standby thread.
//  3. The standby thread receives at once if others drive rarely and none waits for packets. Otherwise it leaves the packets to
//     them for a tick. While nothing arrives and nothing is owed, it sleeps.
//     What wakes it for other reasons (call) wakes no thread that waits for packets.
//  4. The completions of datagrams are those that programs in C know (NetworkInSL).

package softroce

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/verbs"
)

// manyDrives is the number of calls of Drive in a tick after which the standby thread does not look for packets in the
// next one. If fewer come, a packet may have to wait for the next call.
const manyDrives = 8

// standby is the thread that receives for a device that is attended.
type standby struct {
	d         *device
	tick      time.Duration // standByTick
	packets   int           // an epoll descriptor, readable while packets wait
	mu        sync.Mutex    // held while call is written or closed
	call      int           // an eventfd that ends the standby thread's sleep
	drives    atomic.Uint64 // calls of Drive
	attending *int32        // threads that wait for the packets; the caller of Attend counts them
	idle      atomic.Bool   // the standby thread sleeps until a packet arrives
	closing   atomic.Bool
}

// Attend makes the callers of Drive and the standby thread receive packets. It returns a descriptor that is
// readable while packets wait; poll it, but do not read it. *attending is the number of threads
// that wait for the descriptor and will call Drive. Attend must be called before any object is
// made. If it fails, the device can only be closed.
func (d *device) Attend(attending *int32) (packets int, err error) {
	s := &standby{d: d, tick: standByTick, attending: attending, packets: -1, call: -1}
	if err := s.open(); err != nil {
		s.free()
		return -1, err
	}
	d.standby = s
	d.engine.NetworkInSL()
	d.loops.Go(s.run)
	return s.packets, nil
}

// detachable is a link whose socket can leave the runtime's poller.
type detachable interface{ Detach() (fd int) }

func (s *standby) open() (err error) {
	if s.packets, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return errors.WithMessage(err, "epoll_create1")
	}
	if s.call, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return errors.WithMessage(err, "eventfd")
	}
	for _, r := range s.d.receivers {
		if _, ok := r.link.(detachable); !ok {
			return syscall.EOPNOTSUPP // a simulated network
		}
		r.retired.Store(true)
		r.Call()
	}
	s.d.loops.Wait() // for the ports' goroutines
	s.d.oneVector()
	for _, r := range s.d.receivers {
		r.pollsFirst = false
		fd := r.link.(detachable).Detach()
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
		if err := unix.EpollCtl(s.packets, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return errors.WithMessage(err, "epoll_ctl")
		}
	}
	return nil
}

func (s *standby) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	unix.Close(s.packets)
	unix.Close(s.call)
	s.call = -1
}

// Drive receives what has arrived at the device, without waiting, and sends what follows. stream reports
// whether much moves in one direction; received, whether packets had arrived; missed, whether another thread
// receives at this moment.
func (c *cq) Drive() (stream, received, missed bool) {
	s := c.d.standby
	s.drives.Add(1)
	did := s.drive(c)
	if did.owes && s.idle.Load() && s.idle.Swap(false) {
		s.wake() // if this thread does not return, the standby thread sends the answer
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
	d.postDrivers[0].drive(math.MaxInt)
	d.waitUntilSent()
}

// round is what a round of receiving did.
type round struct {
	received bool
	missed   bool // another thread receives for a port at this moment
	owes     bool // an answer is left to the next round
}

// drive is one round for each port. If a completion for c results, it leaves the answer to the next.
func (s *standby) drive(c *cq) (did round) {
	for _, r := range s.d.receivers {
		if !r.Try(r.own) {
			did.missed = true
			continue
		}
		did.received = r.round(c, r.await) == nil || did.received
		did.owes = did.owes || r.owes
		r.Give()
	}
	return did
}

// run is the standby thread.
func (s *standby) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer s.free()
	for seen := uint64(0); ; {
		before := seen
		seen = s.drives.Load()
		if seen-before >= manyDrives && !s.closing.Load() {
			s.pause()
			continue
		}
		packets, err := s.wait(seen, seen != before)
		if s.closing.Load() {
			return
		}
		if err != nil {
			s.d.events.Put(verbs.AsyncEvent{Type: verbs.EventDeviceFatal})
			return
		}
		if packets && (s.drives.Load() != seen || atomic.LoadInt32(s.attending) > 0) {
			s.pause() // other threads receive, probably
		}
		for packets && s.drives.Load() == seen && !s.closing.Load() {
			did := s.drive(nil)
			if did.missed {
				s.pause() // a thread is in Drive for long
			}
			// A stream goes on: save the system call that waits.
			packets = did.received && s.d.traffic.stream.Load()
		}
	}
}

// pause leaves the packets to other threads for a tick.
func (s *standby) pause() {
	tick := unix.NsecToTimespec(int64(s.tick))
	_ = unix.Nanosleep(&tick, nil)
}

// wait waits for packets: for a tick or, if nobody has driven since seen and nothing is owed, forever.
func (s *standby) wait(seen uint64, tick bool) (packets bool, err error) {
	timeout := int(s.tick / time.Millisecond)
	if !tick {
		s.idle.Store(true) // before the locks are tried: a thread that has one now will look
		for _, r := range s.d.receivers {
			if r.Try(r.own) {
				r.settle()
				r.Give()
			}
		}
		if s.drives.Load() == seen {
			timeout = -1
		}
	}
	ready := []unix.PollFd{{Fd: int32(s.packets), Events: unix.POLLIN}, {Fd: int32(s.call), Events: unix.POLLIN}}
	_, err = unix.Poll(ready, timeout)
	s.idle.Store(false)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return false, err
	}
	if ready[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(s.call, count[:])
	}
	return ready[0].Revents != 0, nil
}

// wake ends the standby thread's sleep.
func (s *standby) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(s.call, one[:]) // it fails after free, or if the counter is full and the standby thread awake
}

// end makes the standby thread return.
func (s *standby) end() {
	s.closing.Store(true)
	s.wake()
}
