// Attended devices: the test receives for them, as threads of C do.

package softroce_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// attended is one end on an attended device. Its CQ's completions go to a ring.
type attended struct {
	*oneEnd
	packets   int // descriptor
	attending int32
	events    atomic.Int32 // calls of notify

	soft interface {
		Share(wcs []verbs.WC, stamps []int64, head, tail *uint32, depth int, notify func()) error
		Drive() (stream, received, missed bool)
	}
	wcs        [16]verbs.WC
	head, tail uint32
}

// newAttended returns an end whose device loses packets with a probability. Requests are never
// repeated if patient, so that a lost wake-up shows.
func newAttended(t *testing.T, loss float64, patient bool) *attended {
	a := &attended{}
	dev := openSoft(t, "soft0")
	packets, err := verbs.ProviderOf(dev).(interface{ Attend(*int32) (int, error) }).Attend(&a.attending)
	if err != nil {
		t.Fatal(err)
	}
	a.packets = packets
	if loss > 0 {
		softroce.Lose(dev, loss)
	}
	a.oneEnd = newOneEndOn(t, dev)
	if patient {
		a.timeout = 0
	}
	var ok bool
	if a.soft, ok = verbs.ProviderOf(a.cq).(interface {
		Share(wcs []verbs.WC, stamps []int64, head, tail *uint32, depth int, notify func()) error
		Drive() (stream, received, missed bool)
	}); !ok {
		t.Fatal("the CQ cannot be driven")
	}
	a.ok(a.soft.Share(a.wcs[:], nil, &a.head, &a.tail, len(a.wcs), func() { a.events.Add(1) }))
	return a
}

// newAttendedPair returns two connected ends.
func newAttendedPair(t *testing.T, loss float64, patient bool) (a, b *attended) {
	a, b = newAttended(t, loss, patient), newAttended(t, loss, patient)
	b.connect(a.oneEnd)
	a.connect(b.oneEnd)
	return a, b
}

// next takes a completion from the ring. While there is none, it calls idle.
func (a *attended) next(idle func()) verbs.WC {
	a.t.Helper()
	for end := testkit.Deadline(); atomic.LoadUint32(&a.tail) == a.head; idle() { // Until would sleep between the calls
		if time.Now().After(end) {
			a.t.Fatalf("no completion within %v", testkit.Limit)
		}
	}
	wc := a.wcs[a.head%uint32(len(a.wcs))]
	atomic.StoreUint32(&a.head, a.head+1)
	a.ok(wc.Err())
	return wc
}

// got takes a completion and checks its opcode. After a receive, it posts another.
func (a *attended) got(want verbs.WCOpcode, idle func()) {
	a.t.Helper()
	if wc := a.next(idle); wc.Opcode != want {
		a.t.Fatalf("completion of %v, want %v", wc.Opcode, want)
	}
	if want == verbs.WCRecv {
		a.repost()
	}
}

func (a *attended) repost() {
	a.ok(a.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{a.mr.SGE(0, receiveBytes)}}}))
}

// drive drives once.
func (a *attended) drive() { a.soft.Drive() }

func sleep() { time.Sleep(100 * time.Microsecond) }

// TestDrive plays ping-pong by driving, also while packets get lost. If none is lost, a send
// completes before the reply to it.
func TestDrive(t *testing.T) {
	for _, loss := range []float64{0, 0.05} {
		t.Run(fmt.Sprint("loss ", loss), func(t *testing.T) {
			softroce.SetVectors(t, 4) // an attended device has one socket nevertheless
			a, b := newAttendedPair(t, loss, loss == 0)
			drive := func() {
				a.soft.Drive()
				b.soft.Drive()
			}
			for i := range 200 {
				from, to := a, b
				if i%2 > 0 {
					from, to = b, a
				}
				from.send(receiveBytes)
				if i > 0 {
					to.gotBoth(drive, loss == 0)
				} else {
					to.got(verbs.WCRecv, drive)
				}
			}
		})
	}
}

// gotBoth takes the completions of a send and of the reply to it.
func (a *attended) gotBoth(idle func(), inOrder bool) {
	a.t.Helper()
	first, second := a.next(idle).Opcode, a.next(idle).Opcode
	if !inOrder && first == verbs.WCRecv {
		first, second = second, first
	}
	if first != verbs.WCSend || second != verbs.WCRecv {
		a.t.Fatalf("completions of %v and %v, want those of a send and a receive", first, second)
	}
	a.repost()
}

// TestDriveReports checks what a thread learns that may sleep until packets arrive.
func TestDriveReports(t *testing.T) {
	a, b := newAttendedPair(t, 0, true)
	for _, is := range []bool{false, true} {
		softroce.SetStream(b.dev, is)
		testkit.Until(t, "Drive while the standby thread does not look", func() bool {
			stream, received, missed := b.soft.Drive()
			if stream != is || received {
				t.Fatalf("a stream %v and no packet: stream %v, received %v", is, stream, received)
			}
			return !missed
		})
	}
	release := softroce.HoldReceivers(b.dev)
	if _, received, missed := b.soft.Drive(); received || !missed {
		t.Errorf("another thread receives: received %v, missed %v", received, missed)
	}
	release()
	atomic.StoreInt32(&b.attending, 1) // the standby thread leaves a packet to this thread, for a tick
	testkit.Until(t, "Drive that receives a packet", func() (received bool) {
		a.send(receiveBytes)
		b.got(verbs.WCRecv, func() {
			_, now, _ := b.soft.Drive()
			received = received || now
		})
		a.got(verbs.WCSend, a.drive)
		return received
	})
}

// TestStandbyReceives lets nobody drive.
func TestStandbyReceives(t *testing.T) {
	for _, loss := range []float64{0, 0.05} {
		t.Run(fmt.Sprint("loss ", loss), func(t *testing.T) {
			a, b := newAttendedPair(t, loss, loss == 0)
			for range 50 {
				a.send(receiveBytes)
				b.got(verbs.WCRecv, sleep)
				a.got(verbs.WCSend, sleep)
			}
		})
	}
}

// TestStandbyTakesOver stops driving at different moments. The peer's request must be answered.
func TestStandbyTakesOver(t *testing.T) {
	a, b := newAttendedPair(t, 0, true)
	for i := range 60 {
		a.send(receiveBytes)
		b.got(verbs.WCRecv, b.drive) // and leaves the answer
		for range i % 4 {
			time.Sleep(time.Duration(i) * 50 * time.Microsecond)
			if i%8 > 3 {
				b.soft.Drive()
			}
		}
		for range i % 5 * 10 { // the standby thread leaves the packets to this goroutine for a tick
			b.soft.Drive()
		}
		a.got(verbs.WCSend, a.drive)
	}
}

// TestFlush checks that Flush sends an ACK which waits for the program's reply, also if the thread has
// driven since the message came.
func TestFlush(t *testing.T) {
	a, b := newAttendedPair(t, 0, true)
	drive := func() { a.soft.Drive(); b.soft.Drive() }
	waited := 0
	testkit.Until(t, "ACK that waits until Flush, five times", func() bool { // a busy machine is too slow for most waits
		for range 8 { // after some exchanges the ACK of a message waits
			a.send(receiveBytes)
			b.got(verbs.WCRecv, drive)
			b.send(receiveBytes)
			a.gotBoth(drive, false)
			b.got(verbs.WCSend, drive)
		}
		before := softroce.SentBytes(b.dev) // b owes no ACK now
		a.send(receiveBytes)
		b.got(verbs.WCRecv, b.drive)
		b.soft.Drive()
		waits := softroce.SentBytes(b.dev) == before
		verbs.ProviderOf(b.dev).(interface{ Flush() }).Flush()
		if softroce.SentBytes(b.dev) == before {
			t.Fatal("Flush has not sent an ACK that waited")
		}
		a.got(verbs.WCSend, drive)
		if waits {
			waited++
		}
		return waited == 5
	})
}

// TestAttending waits for packets as ibv_get_cq_event does.
func TestAttending(t *testing.T) {
	a, b := newAttendedPair(t, 0, true)
	atomic.StoreInt32(&b.attending, 1)
	for i := range 50 {
		b.ok(b.cq.Arm(false))
		a.send(receiveBytes)
		testkit.Until(t, "event", func() bool {
			const pause = 100 // milliseconds: the standby thread may have taken the packet
			if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(b.packets), Events: unix.POLLIN}}, pause); n > 0 {
				b.soft.Drive()
			}
			return b.events.Load() > int32(i)
		})
		b.got(verbs.WCRecv, func() { t.Fatal("an event without a completion") })
		a.got(verbs.WCSend, a.drive)
	}
	if n := b.events.Load(); n != 50 {
		t.Errorf("%d events, want 50", n)
	}
}

// TestManyDrive lets threads drive both ends, while one thread takes the completions, and while the
// objects and the device are closed.
func TestManyDrive(t *testing.T) {
	var stop atomic.Bool
	var threads sync.WaitGroup
	t.Cleanup(func() { // after the devices are closed
		stop.Store(true)
		threads.Wait()
	})
	a, b := newAttendedPair(t, 0, false)
	for _, end := range []*attended{a, b, a, b} {
		threads.Go(func() {
			for !stop.Load() {
				end.soft.Drive()
				time.Sleep(10 * time.Microsecond)
			}
		})
	}
	for range 300 {
		a.send(receiveBytes)
		b.got(verbs.WCRecv, sleep)
		a.got(verbs.WCSend, sleep)
	}
}

// TestBusyDeviceStaysAttended closes a device that has objects.
func TestBusyDeviceStaysAttended(t *testing.T) {
	a, b := newAttendedPair(t, 0, true)
	if err := a.dev.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("closing a device with objects: %v, want EBUSY", err)
	}
	b.send(receiveBytes)
	a.got(verbs.WCRecv, a.drive)
	b.got(verbs.WCSend, sleep)
}
