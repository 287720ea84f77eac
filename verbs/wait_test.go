package verbs

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// waitRoom is a CQ with a channel on a paper device.
func waitRoom(t *testing.T) (*Device, *CompChannel, *CQ, *paperCQ) {
	d, p := newPaperDevice()
	ch := must[*CompChannel](t)(d.CreateCompChannel())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1000, Channel: ch}))
	return d, ch, cq, p.cq
}

func closeRoom(t *testing.T, objects ...interface{ Close() error }) {
	for _, object := range objects {
		if err := object.Close(); err != nil {
			t.Errorf("closing a %T: %v", object, err)
		}
	}
}

func TestWaitReturnsPresentAndLaterCompletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ch, cq, paper := waitRoom(t)
		defer closeRoom(t, cq, ch, d)
		wcs := make([]WC, 4)
		paper.complete(WC{ID: 1})
		if n, err := cq.Wait(t.Context(), wcs); n != 1 || err != nil || wcs[0].ID != 1 {
			t.Errorf("what is there: %d, %v", n, err)
		}
		go func() {
			time.Sleep(time.Second)
			paper.complete(WC{ID: 2}, WC{ID: 3})
		}()
		if n, err := cq.Wait(t.Context(), wcs); n != 2 || err != nil || wcs[1].ID != 3 {
			t.Errorf("what comes: %d, %v", n, err)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ch, cq, _ := waitRoom(t)
		defer closeRoom(t, cq, ch, d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := cq.Wait(ctx, make([]WC, 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("deadline: %v", err)
		}
		why := errors.New("the peer died")
		ctx2, cancel2 := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel2(why) })
		if _, err := cq.Wait(ctx2, make([]WC, 1)); !errors.Is(err, why) || !errors.Is(err, context.Canceled) || err.Error() != why.Error() {
			t.Errorf("cause: %v", err)
		}
		ctx3, cancel3 := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel3()
		for _, err := range cq.Completions(ctx3) {
			if !errors.Is(err, why) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("deadline with a cause: %v", err)
			}
		}
	})
}

func TestWaitForEndsWithEitherContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ch, cq, _ := waitRoom(t)
		defer closeRoom(t, cq, ch, d)
		why := errors.New("the peer died")
		for i := range 2 {
			contexts := [2]context.Context{t.Context(), context.Background()}
			ending, end := context.WithCancelCause(t.Context())
			contexts[i] = ending
			time.AfterFunc(time.Second, func() { end(why) })
			if _, err := cq.WaitFor(contexts[0], make([]WC, 1), WaitOptions{Owner: contexts[1]}); !errors.Is(err, why) || errors.Is(err, context.Canceled) != (i == 0) {
				t.Errorf("context %d: %v", i, err)
			}
		}
	})
}

// TestASpinEnds with a completion, after its time (and then sleeps), and with either context.
func TestASpinEnds(t *testing.T) {
	d, ch, cq, paper := waitRoom(t)
	defer closeRoom(t, cq, ch, d)
	wcs := make([]WC, 4)
	spin := func(ctx context.Context, o WaitOptions) (int, error) { return cq.WaitFor(ctx, wcs, o) }
	for _, long := range []time.Duration{time.Hour, time.Millisecond} {
		time.AfterFunc(testkit.Moment, func() { paper.complete(WC{ID: 5}) })
		if n, err := spin(t.Context(), WaitOptions{Spin: long}); n != 1 || err != nil || wcs[0].ID != 5 {
			t.Errorf("spinning for %v: %d, %v", long, n, err)
		}
	}
	if n, err := spin(t.Context(), WaitOptions{Spin: time.Millisecond, NoSleep: true}); n != 0 || err != nil {
		t.Errorf("without sleep: %d, %v", n, err)
	}
	ending := testkit.Expiring(t)
	if _, err := spin(ending, WaitOptions{Spin: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its context: %v", err)
	}
	if _, err := spin(t.Context(), WaitOptions{Spin: time.Hour, Owner: ending}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its owner: %v", err)
	}
	if n, err := spin(ending, WaitOptions{Spin: time.Hour, NoSleep: true}); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its context, without sleep: %d, %v", n, err)
	}
}

// lateContext has ended, and at the first look at it a completion comes.
type lateContext struct {
	context.Context
	late func()
}

func (c lateContext) Done() <-chan struct{} { c.late(); return c.Context.Done() }
func (c lateContext) Err() error            { c.late(); return c.Context.Err() }

// TestACompletionBeforeTheEnd checks each way to wait: a completion between a poll and the look at the contexts is returned.
func TestACompletionBeforeTheEnd(t *testing.T) {
	d, ch, cq, paper := waitRoom(t)
	defer closeRoom(t, cq, ch, d)
	driven := &drivenCQ{paperCQ: paper, can: true, during: func(int) {}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, o := range map[string]WaitOptions{"sleeping": {}, "polling": {Spin: time.Hour, NoSleep: true}, "driving": {Spin: time.Hour, NoSleep: true}} {
		if cq.p = paper; name == "driving" {
			cq.p = driven
		}
		for _, owner := range []bool{false, true} {
			ctx := context.Context(lateContext{ended, sync.OnceFunc(func() { paper.complete(WC{ID: 1}) })})
			if o.Owner = nil; owner {
				ctx, o.Owner = t.Context(), ctx
			}
			if n, err := cq.WaitFor(ctx, make([]WC, 1), o); n != 1 || err != nil {
				t.Errorf("%s, owner %v: %d, %v", name, owner, n, err)
			}
			if n, err := cq.WaitFor(ctx, make([]WC, 1), o); n != 0 || !errors.Is(err, context.Canceled) {
				t.Errorf("%s, owner %v, empty: %d, %v", name, owner, n, err)
			}
		}
	}
	cq.p = paper
}

// drivenCQ is a CQ of a device that works in goroutines that wait.
type drivenCQ struct {
	*paperCQ
	can    bool
	drives int
	ends   int
	during func(drives int) // called by DriveOnce
}

func (c *drivenCQ) Sleep(_, _ context.Context, woken, _ <-chan struct{}) { <-woken }
func (c *drivenCQ) WakeSleeper()                                         {}
func (c *drivenCQ) SleepMakesProgress() bool                             { return true }
func (c *drivenCQ) Drives() bool                                         { return c.can }
func (c *drivenCQ) DriveOnce() {
	c.drives++
	c.during(c.drives)
}
func (c *drivenCQ) DriveEnd() { c.ends++ }

// TestASpinDrives checks that a spin drives a device that needs it once per poll, and that it sleeps
// if it cannot.
func TestASpinDrives(t *testing.T) {
	d, ch, cq, paper := waitRoom(t)
	defer closeRoom(t, cq, ch, d)
	if !cq.Spins() || cq.WaitMakesProgress() {
		t.Error("a plain CQ needs somebody to drive")
	}
	completeAt := func(n int) func(int) {
		return func(drives int) {
			if drives == n {
				paper.complete(WC{ID: 5})
			}
		}
	}
	driven := &drivenCQ{paperCQ: paper, can: true}
	cq.p = driven
	wcs := make([]WC, 4)
	for _, drives := range []int{1, 2, 100} {
		driven.drives, driven.during = 0, completeAt(drives)
		if n, err := cq.WaitFor(t.Context(), wcs, WaitOptions{Spin: time.Hour}); n != 1 || err != nil || driven.drives != drives {
			t.Errorf("%d, %v after %d drives, want %d", n, err, driven.drives, drives)
		}
	}
	driven.drives, driven.during = 0, func(int) {}
	if n, err := cq.WaitFor(t.Context(), wcs, WaitOptions{Spin: 1, NoSleep: true}); n != 0 || err != nil || driven.drives != 1 {
		t.Errorf("a nanosecond: %d, %v after %d drives, want 1", n, err, driven.drives)
	}
	if n, err := cq.WaitFor(t.Context(), wcs, WaitOptions{NoSleep: true}); n != 0 || err != nil || driven.drives != 1 {
		t.Errorf("without Spin: %d, %v after %d drives", n, err, driven.drives)
	}
	ending, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	driven.during = func(int) { cancel(why) }
	if n, err := cq.WaitFor(ending, wcs, WaitOptions{Spin: time.Hour, NoSleep: true}); n != 0 || !errors.Is(err, why) || driven.drives != 2 {
		t.Errorf("a context: %d, %v after %d drives", n, err, driven.drives)
	}
	driven.can, driven.drives = false, 0
	time.AfterFunc(testkit.Moment, func() { paper.complete(WC{ID: 6}) })
	if n, err := cq.WaitFor(t.Context(), wcs, WaitOptions{Spin: time.Hour}); cq.Spins() || n != 1 || err != nil || driven.drives != 0 {
		t.Errorf("a CQ that cannot: %d, %v after %d drives", n, err, driven.drives)
	}
	if driven.ends != 5 {
		t.Errorf("the device learned of the end of %d spins, want 5", driven.ends)
	}
	cq.p = paper
}

func TestCloseWakesAllWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ch, cq, _ := waitRoom(t)
		var waiters sync.WaitGroup
		for range 100 {
			waiters.Go(func() {
				if _, err := cq.Wait(context.Background(), make([]WC, 1)); !errors.Is(err, net.ErrClosed) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		closeRoom(t, cq, ch, d)
		waiters.Wait()
	})
}

// TestOneEventWakesAsManyAsThereIsWorkFor has many waiters with room for one completion each. A burst
// of completions brings one event.
func TestOneEventWakesAsManyAsThereIsWorkFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ch, cq, paper := waitRoom(t)
		defer closeRoom(t, cq, ch, d)
		var waiters sync.WaitGroup
		for range 64 {
			waiters.Go(func() {
				if n, err := cq.Wait(context.Background(), make([]WC, 1)); n != 1 || err != nil {
					t.Errorf("got %d, %v", n, err)
				}
			})
		}
		synctest.Wait()
		paper.complete(make([]WC, 64)...)
		waiters.Wait() // synctest reports a deadlock if one is forgotten
	})
}

func TestWaitReturnsTheErrorOfABrokenChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ch, cq, paper := waitRoom(t)
		defer closeRoom(t, cq, ch, d)
		time.AfterFunc(time.Second, func() {
			paper.mu.Lock()
			defer paper.mu.Unlock()
			paper.broken = syscall.EIO
			paper.wake()
		})
		var waiters sync.WaitGroup
		for range 3 {
			waiters.Go(func() {
				if _, err := cq.Wait(t.Context(), make([]WC, 1)); !errors.Is(err, syscall.EIO) {
					t.Errorf("got %v", err)
				}
			})
		}
		waiters.Wait() // synctest reports a deadlock if one is forgotten
	})
}

// TestSolicitedWaiterArmsForPlainOnes: a solicited wait takes an event, finds that another goroutine
// has polled the completions, and arms again. An unsolicited completion must still wake a plain Wait.
func TestSolicitedWaiterArmsForPlainOnes(t *testing.T) {
	for name, keeps := range map[string]bool{"the last arm counts": false, "an arm for any stays": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, ch, cq, paper := waitRoom(t)
				defer closeRoom(t, cq, ch, d)
				paper.keeps = keeps
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var waiters sync.WaitGroup
				waiters.Go(func() { // sleeps first, so it is woken first
					if n, err := cq.WaitFor(ctx, make([]WC, 1), WaitOptions{Solicited: true}); n != 1 || err != nil {
						t.Errorf("solicited: %d, %v", n, err)
					}
				})
				synctest.Wait()
				waiters.Go(func() {
					if n, err := cq.Wait(ctx, make([]WC, 1)); n != 1 || err != nil {
						t.Errorf("Wait: %d, %v", n, err)
					}
				})
				synctest.Wait()
				paper.complete() // an event without a completion
				synctest.Wait()
				paper.complete(WC{ID: 1}, WC{ID: 2})
				synctest.Wait()
				if n := cq.waiting.Load(); n != 0 {
					t.Errorf("%d goroutines sleep on", n)
				}
				waiters.Wait()
			})
		})
	}
}

// TestPlainWaiterArmsWhileASolicitedOneDoes: the arm of the plain wait is followed by an arm for
// solicited completions, which was decided before.
func TestPlainWaiterArmsWhileASolicitedOneDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ch, cq, paper := waitRoom(t)
		defer closeRoom(t, cq, ch, d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var waiters sync.WaitGroup
		paper.beforeArm = func() {
			waiters.Go(func() { _, _ = cq.Wait(ctx, make([]WC, 1)) })
			time.Sleep(time.Second) // until it sleeps
		}
		waiters.Go(func() { _, _ = cq.WaitFor(ctx, make([]WC, 1), WaitOptions{Solicited: true}) })
		time.Sleep(2 * time.Second)
		paper.complete(WC{ID: 1}, WC{ID: 2})
		synctest.Wait()
		if n := cq.waiting.Load(); n != 0 {
			t.Errorf("%d goroutines sleep on", n)
		}
		waiters.Wait()
	})
}

// TestSolicitedWaiterAloneSleepsOn: without a plain Wait, an unsolicited completion wakes nobody.
func TestSolicitedWaiterAloneSleepsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ch, cq, paper := waitRoom(t)
		defer closeRoom(t, cq, ch, d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := cq.Wait(ctx, make([]WC, 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a plain Wait, which is over: %v", err)
		}
		paper.complete() // disarms the CQ
		var waiter sync.WaitGroup
		began := time.Now()
		waiter.Go(func() {
			if n, err := cq.WaitFor(t.Context(), make([]WC, 2), WaitOptions{Solicited: true}); n != 2 || err != nil || time.Since(began) != 2*time.Second {
				t.Errorf("%d, %v after %v", n, err, time.Since(began))
			}
		})
		time.Sleep(time.Second)
		paper.complete(WC{ID: 1})
		time.Sleep(time.Second)
		paper.completeAs(true, WC{ID: 2})
		waiter.Wait()
	})
}

func TestWaitNeedsAChannelAndRoom(t *testing.T) {
	d, _ := newPaperDevice()
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	if _, err := cq.Wait(t.Context(), make([]WC, 1)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("without a channel: %v", err)
	}
	_, _, cq2, _ := waitRoom(t)
	if _, err := cq2.Wait(t.Context(), nil); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("without room: %v", err)
	}
	if _, err := cq2.WaitFor(t.Context(), make([]WC, 1), WaitOptions{Spin: -1, NoSleep: true}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Spin -1: %v", err)
	}
}
