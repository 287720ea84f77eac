//go:build linux && cgo && !nolibibverbs

package verbs

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs/internal/ibvfake"
)

// pipeRoom is a completion channel with its CQs. The channel's events are the bytes of a pipe.
type pipeRoom struct {
	t    *testing.T
	ch   *ibvCompChannel
	cqs  []*pipeCQ
	pipe int // the end for writing, until it is closed
}

type pipeCQ struct {
	*ibvCQ
	event       []byte
	woken, gone chan struct{}
}

func newPipeRoom(t *testing.T, cqs int) *pipeRoom {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	var d ibvDevice
	r := &pipeRoom{t: t, ch: newIBVCompChannel(&d), pipe: fds[1]}
	read := make([]byte, 1)
	var err error
	r.ch.events, err = newFDWaiter(fds[0], "pipe", func() syscall.Errno {
		n, err := unix.Read(fds[0], read)
		if err != nil {
			return err.(syscall.Errno)
		}
		if n == 0 {
			return syscall.EPIPE
		}
		r.ch.got[0], r.ch.n = r.cqs[read[0]].cq, 1
		return 0
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range cqs {
		f := ibvfake.New()
		t.Cleanup(f.Free)
		c := &pipeCQ{ibvCQ: newIBVCQ(f.CQ(), &d.cqs), event: []byte{byte(i)}, woken: make(chan struct{}, 1), gone: make(chan struct{})}
		c.channel, c.wake = r.ch, wakeUp(c.woken)
		d.cqs.put(c.cq, c.ibvCQ)
		r.cqs = append(r.cqs, c)
	}
	t.Cleanup(func() {
		_ = r.ch.events.close()
		unix.Close(fds[0])
		if r.pipe >= 0 {
			unix.Close(r.pipe)
		}
	})
	return r
}

// event sends an event of CQ i.
func (r *pipeRoom) event(t *testing.T, i int) {
	if _, err := unix.Write(r.pipe, r.cqs[i].event); err != nil {
		t.Error(err)
	}
}

// sleeps starts a Sleep on CQ i and returns a channel that is closed when Sleep returns. If no
// goroutine reads the channel, this Sleep does.
func (r *pipeRoom) sleeps(ctx, life context.Context, i int) <-chan struct{} {
	done := make(chan struct{})
	c := r.cqs[i]
	go func() {
		defer close(done)
		c.Sleep(ctx, life, c.woken, c.gone)
	}()
	testkit.Until(r.t, "reader of the channel", func() bool {
		select {
		case <-done:
			return true
		default:
			r.ch.Lock()
			defer r.ch.Unlock()
			return !r.ch.Works(nil)
		}
	})
	return done
}

func sleepsOn(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	time.Sleep(testkit.Moment)
	select {
	case <-done:
		t.Fatalf("%s: awake", what)
	default:
	}
}

func TestOneWaiterReadsEventsForAll(t *testing.T) {
	bg := context.Background()
	r := newPipeRoom(t, 3)
	first, second := r.sleeps(bg, bg, 0), r.sleeps(bg, bg, 1)
	r.event(t, 1)
	testkit.Receive(t, second, "wake-up: another's event")
	r.event(t, 2) // no goroutine waits for it
	sleepsOn(t, "the reader, after others' events", first)
	second = r.sleeps(bg, bg, 1)
	r.event(t, 0)
	testkit.Receive(t, first, "wake-up: the reader's event")
	sleepsOn(t, "the next reader", second)
	testkit.Receive(t, r.sleeps(bg, bg, 2), "wake-up: an event from before")
	r.event(t, 1)
	testkit.Receive(t, second, "wake-up: the next reader's event")
}

// TestWhatEndsTheReadersWait checks that the channel still works after each case.
func TestWhatEndsTheReadersWait(t *testing.T) {
	bg := context.Background()
	r := newPipeRoom(t, 3)
	c := r.cqs[0]
	for name, end := range map[string]func(cancel func()){
		"its context": func(cancel func()) { cancel() },
		"given back": func(func()) {
			c.wake()
			c.WakeSleeper()
		},
		"both": func(cancel func()) {
			c.wake()
			c.WakeSleeper()
			cancel()
		},
	} {
		for _, life := range []bool{false, true} {
			ctx, cancel := context.WithCancel(bg)
			contexts := [2]context.Context{ctx, bg}
			if life {
				contexts = [2]context.Context{bg, ctx}
			}
			reader, other := r.sleeps(contexts[0], contexts[1], 0), r.sleeps(bg, bg, 1)
			end(cancel)
			testkit.Receive(t, reader, "wake-up: "+name)
			sleepsOn(t, name+", the other", other)
			r.event(t, 1)
			testkit.Receive(t, other, "wake-up: "+name+", the other")
			cancel()
			select {
			case <-c.woken:
			default:
			}
		}
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	testkit.Receive(t, r.sleeps(ctx, bg, 0), "wake-up: a context that has ended")
	c.wake()
	testkit.Receive(t, r.sleeps(bg, bg, 0), "wake-up: woken before")

	reader, other := r.sleeps(bg, bg, 0), r.sleeps(bg, bg, 1)
	r.ch.cqs.drop(c.cq) // like a refused Close, during which an event comes
	r.event(t, 0)
	sleepsOn(t, "an event while Close tries", reader)
	r.ch.cqs.put(c.cq, c.ibvCQ)
	c.wake()
	c.WakeSleeper()
	testkit.Receive(t, reader, "wake-up: a Close that was refused")
	r.event(t, 1)
	testkit.Receive(t, other, "wake-up: an event of the other")
	reader, other = r.sleeps(bg, bg, 0), r.sleeps(bg, bg, 1)
	c.endSleeps() // as Close does after it destroyed the CQ
	testkit.Receive(t, reader, "wake-up: closed")
	asleep := []<-chan struct{}{other, r.sleeps(bg, bg, 1), r.sleeps(bg, bg, 2)}
	unix.Close(r.pipe)
	r.pipe = -1
	for _, done := range asleep {
		testkit.Receive(t, done, "wake-up: a broken channel")
	}
	if err := r.cqs[1].Arm(false); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("arming: %v", err)
	}
	testkit.Receive(t, r.sleeps(bg, bg, 1), "wake-up: a channel that broke before")
}

// TestNoEventIsLost starts many goroutines that wait as CQ.Wait does. On two CQs they wait until they
// get work. On two others, which get no events, their contexts end all the time. If an event does not
// wake a waiter, work is left undone.
func TestNoEventIsLost(t *testing.T) {
	const each, events = 8, 20_000
	r := newPipeRoom(t, 4)
	life, end := context.WithCancel(testkit.Context(t))
	defer end()
	var work [2]atomic.Int32
	var done atomic.Int32
	var all sync.WaitGroup
	for i, c := range r.cqs {
		for j := range each {
			all.Go(func() {
				for i >= len(work) && life.Err() == nil {
					ctx, cancel := context.WithTimeout(life, testkit.Moment*time.Duration(j+1)/200)
					c.Sleep(ctx, life, c.woken, c.gone)
					cancel()
				}
				for life.Err() == nil {
					if !taken(&work[i]) {
						c.Sleep(life, context.Background(), c.woken, c.gone)
						continue
					}
					c.wake() // one event may stand for several
					c.WakeSleeper()
					if done.Add(1) == events {
						end()
					}
				}
			})
		}
	}
	for n := range events {
		i := n % len(work)
		work[i].Add(1)
		r.event(t, i)
		if n%100 == 0 {
			time.Sleep(time.Millisecond) // until they sleep
		}
	}
	all.Wait()
	if n := done.Load(); n != events {
		t.Errorf("%d of %d events had somebody awake: %v", n, events, life.Err())
	}
}

// taken takes one unit of work, if there is one.
func taken(work *atomic.Int32) bool {
	for n := work.Load(); n > 0; n = work.Load() {
		if work.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

// TestLongCallDelaysNoOtherCQ: a long call, such as a Spin, on the CQ on which the reader waits must
// not delay waits on other CQs.
func TestLongCallDelaysNoOtherCQ(t *testing.T) {
	bg := context.Background()
	r := newPipeRoom(t, 2)
	r.cqs[0].mu.Lock()
	reader, other := r.sleeps(bg, bg, 0), r.sleeps(bg, bg, 1)
	r.event(t, 1)
	testkit.Receive(t, other, "wake-up: another CQ's event")
	r.cqs[0].mu.Unlock()
	r.event(t, 0)
	testkit.Receive(t, reader, "wake-up: the reader's event")
}

func TestDrainReadsEventsWithoutWaiters(t *testing.T) {
	r := newPipeRoom(t, 2)
	r.ch.events.Interrupt() // like the context of a wait that has ended long before
	for range 100 {
		r.event(t, 1)
	}
	drain := func() {
		r.cqs[1].unread = 100
		if err := r.cqs[1].arms(); err != nil {
			t.Error(err)
		}
	}
	drain()
	if err := r.ch.events.now(); err != syscall.EAGAIN || r.cqs[1].unread != 1 || len(r.cqs[1].woken) != 1 {
		t.Errorf("%v, %d unread, %d wake-ups", err, r.cqs[1].unread, len(r.cqs[1].woken))
	}
	reader := r.sleeps(t.Context(), t.Context(), 0)
	drain() // another goroutine has the turn
	r.event(t, 0)
	testkit.Receive(t, reader, "wake-up: the reader")
}

func TestSleepAllocatesNothing(t *testing.T) {
	r := newPipeRoom(t, 1)
	c, ctx := r.cqs[0], t.Context()
	asleep := make(chan struct{})
	go func() {
		for range asleep {
			time.Sleep(time.Millisecond)
			r.event(t, 0)
		}
	}()
	defer close(asleep)
	// Under the address sanitizer the standard library's contexts allocate.
	contexts := testkit.Allocations(t, 50, func() {
		ctx.Done()
		_ = ctx.Err()
	})
	if n := testkit.Allocations(t, 50, func() {
		asleep <- struct{}{}
		c.Sleep(ctx, context.Background(), c.woken, c.gone)
	}); n != contexts {
		t.Errorf("%v allocations, of which contexts make %v", n, contexts)
	}
}
