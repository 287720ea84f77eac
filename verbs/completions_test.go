package verbs

import (
	"context"
	stderrors "errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"
)

// numbered returns completions with consecutive IDs, beginning with first.
func numbered(first, n int) []WC {
	wcs := make([]WC, n)
	for i := range wcs {
		wcs[i].ID = uint64(first + i)
	}
	return wcs
}

func TestCompletionsWaitAndKeepTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ch, cq, paper := waitRoom(t)
		defer closeRoom(t, cq, ch, d)
		const n = 3*completionsBatch + 5
		go func() {
			for i := range n {
				time.Sleep(time.Millisecond * time.Duration(i%3))
				paper.complete(numbered(i, 1)...)
			}
		}()
		next := uint64(0)
		for wc, err := range cq.Completions(t.Context()) {
			if err != nil || wc.ID != next {
				t.Fatalf("completion %d: %d, %v", next, wc.ID, err)
			}
			if next++; next == n {
				break
			}
		}
	})
}

// TestCompletionsLoseNothing leaves loops, by break and by panic, at every place in a batch. Loops,
// polls and waits must then return the rest.
func TestCompletionsLoseNothing(t *testing.T) {
	d, ch, cq, paper := waitRoom(t)
	defer closeRoom(t, cq, ch, d)
	const n = 100
	paper.complete(numbered(0, n)...)
	var got []WC
	loop := func(turns int, end func()) {
		for wc, err := range cq.Completions(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, wc)
			if turns--; turns == 0 {
				end()
				break
			}
		}
	}
	poll := func(poll func([]WC) (int, error), room int) {
		wcs := make([]WC, room)
		k, err := poll(wcs)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, wcs[:k]...)
	}
	for i := 1; len(got) < n; i++ {
		switch i % 4 {
		case 0:
			loop(min(i%7+1, n-len(got)), func() {})
		case 1:
			func() {
				defer func() { _ = recover() }()
				loop(1, func() { panic("the loop's body") })
			}()
		case 2:
			poll(cq.Poll, i%3+1)
		case 3:
			poll(func(wcs []WC) (int, error) { return cq.Wait(t.Context(), wcs) }, i%5+1)
		}
	}
	for i, wc := range got {
		if wc.ID != uint64(i) {
			t.Fatalf("completion %d is %d", i, wc.ID)
		}
	}
	if k, err := cq.Poll(make([]WC, 1)); k != 0 || err != nil || len(got) != n {
		t.Errorf("%d completions, and %d more: %v", len(got), k, err)
	}
}

func TestCompletionsLeftWakeWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ch, cq, paper := waitRoom(t)
		defer closeRoom(t, cq, ch, d)
		paper.complete(numbered(0, 3)...)
		var waiters sync.WaitGroup
		for wc, err := range cq.Completions(t.Context()) {
			if wc.ID != 0 || err != nil {
				t.Errorf("%d, %v", wc.ID, err)
			}
			for range 2 {
				waiters.Go(func() {
					if n, err := cq.Wait(t.Context(), make([]WC, 1)); n != 1 || err != nil {
						t.Errorf("%d, %v", n, err)
					}
				})
			}
			synctest.Wait() // until they sleep
			break
		}
		waiters.Wait() // synctest reports a deadlock if one is forgotten
	})
}

func TestCompletionsEndWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ch, cq, _ := waitRoom(t)
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		ends := func(ctx context.Context, cq *CQ, want error) {
			t.Helper()
			turns := 0
			for wc, err := range cq.Completions(ctx) {
				if turns++; wc != (WC{}) || !errors.Is(err, want) {
					t.Errorf("got %+v, %v", wc, err)
				}
			}
			if turns != 1 {
				t.Errorf("%d turns", turns)
			}
		}
		ends(ctx, cq, why)
		time.AfterFunc(time.Second, func() { closeRoom(t, cq) })
		ends(t.Context(), cq, net.ErrClosed)
		mute := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
		ends(t.Context(), mute, syscall.EINVAL)
		closeRoom(t, mute, ch, d)
	})
}

// TestCompletionsOfAClosedCQAreGone checks that Close discards what a loop left.
func TestCompletionsOfAClosedCQAreGone(t *testing.T) {
	d, ch, cq, paper := waitRoom(t)
	paper.complete(numbered(0, 3)...)
	for range cq.Completions(t.Context()) {
		closeRoom(t, cq)
		break
	}
	if cq.leftover.n.Load() != 0 || len(cq.leftover.wcs) != 0 {
		t.Error("completions are kept")
	}
	closeRoom(t, ch, d)
}

// TestCompletionsAllocateNothingEach checks that a loop's memory does not depend on its length.
func TestCompletionsAllocateNothingEach(t *testing.T) {
	d, ch, cq, paper := waitRoom(t)
	defer closeRoom(t, cq, ch, d)
	ready := numbered(0, 10*completionsBatch)
	cost := func(n int) float64 {
		return testing.AllocsPerRun(50, func() {
			paper.ready = ready[:n]
			left := n
			for range cq.Completions(context.Background()) {
				if left--; left == 0 {
					break
				}
			}
		})
	}
	if short, long := cost(1), cost(len(ready)); short != long || long > 4 {
		t.Errorf("a loop of 1 allocates %v times, one of %d %v times", short, len(ready), long)
	}
}

func TestWaitAllocatesNothing(t *testing.T) {
	d, ch, cq, paper := waitRoom(t)
	defer closeRoom(t, cq, ch, d)
	ready, wcs := numbered(0, 4), make([]WC, 4)
	for name, wait := range map[string]func(){
		"Wait":      func() { _, _ = cq.Wait(context.Background(), wcs) },
		"with all":  func() { _, _ = cq.WaitFor(t.Context(), wcs, WaitOptions{Owner: t.Context(), Spin: 1, Solicited: true}) },
		"no sleep":  func() { _, _ = cq.WaitFor(t.Context(), wcs, WaitOptions{NoSleep: true}) },
		"Spin only": func() { _, _ = cq.WaitFor(t.Context(), wcs, WaitOptions{Spin: 1, NoSleep: true}) },
	} {
		if n := testing.AllocsPerRun(100, func() {
			paper.ready = ready
			wait()
		}); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func TestASolicitedWaitSleepsThroughTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ch, cq, paper := waitRoom(t)
		defer closeRoom(t, cq, ch, d)
		begin := time.Now()
		go func() {
			for i := range 3 {
				time.Sleep(time.Second)
				paper.completeAs(i == 2, numbered(i, 1)...)
			}
		}()
		if n, err := cq.WaitFor(t.Context(), make([]WC, 8), WaitOptions{Solicited: true}); n != 3 || err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("%d completions after %v, %v", n, time.Since(begin), err)
		}
		paper.complete(WC{})
		if n, err := cq.WaitFor(t.Context(), make([]WC, 8), WaitOptions{Solicited: true}); n != 1 || err != nil {
			t.Errorf("what is there: %d, %v", n, err)
		}
	})
}

func TestExtendedCQ(t *testing.T) {
	d, p := newPaperDevice()
	ch := must[*CompChannel](t)(d.CreateCompChannel())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 4, Channel: ch, Vector: 1, Ex: WCExStandard | WCExTimestamp, Flags: CQSingleThreaded}))
	paper := p.cq
	if init := paper.init; init.Vector != 1 || init.Ex != WCExStandard|WCExTimestamp || init.Flags != CQSingleThreaded {
		t.Errorf("the provider was given %+v", init)
	}
	wcs := make([]WCEx, 2)
	paper.complete(numbered(1, 5)...)
	if n, err := cq.PollEx(wcs); n != 2 || err != nil || wcs[1].ID != 2 || wcs[1].Timestamp != 1002 {
		t.Errorf("PollEx: %d, %v, %+v", n, err, wcs)
	}
	if n, err := cq.WaitFor(t.Context(), nil, WaitOptions{Ex: wcs[:1]}); n != 1 || err != nil || wcs[0].ID != 3 {
		t.Errorf("WaitFor: %d, %v, %+v", n, err, wcs)
	}
	for range cq.Completions(t.Context()) {
		break
	}
	if n, err := cq.PollEx(wcs); n != 1 || err != nil || wcs[0] != (WCEx{WC: WC{ID: 5}}) {
		t.Errorf("what a loop left: %d, %v, %+v", n, err, wcs[0])
	}
	plain := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 4}))
	if _, err := plain.PollEx(wcs); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "try: a CQ made with CQInit.Ex") {
		t.Errorf("PollEx of a plain CQ: %v", err)
	}
	p.refuse = syscall.EOPNOTSUPP
	_, err := d.CreateCQ(CQInit{Depth: 4, Ex: WCExTimestamp})
	if !errors.Is(err, stderrors.ErrUnsupported) || !strings.Contains(err.Error(), "ibv_create_cq_ex on paper0 (depth 4, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, 0)") {
		t.Errorf("a device without timestamps: %v", err)
	}
	closeRoom(t, plain, cq, ch, d)
}

func TestResizeAndModerate(t *testing.T) {
	d, p := newPaperDevice()
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 4}))
	paper := p.cq
	if err := cq.Resize(100); err != nil || cq.Depth() != 100 {
		t.Errorf("Resize: %v, depth %d", err, cq.Depth())
	}
	if err := cq.Moderate(16, 100*time.Microsecond); err != nil || paper.count != 16 || paper.period != 100*time.Microsecond {
		t.Errorf("Moderate: %v, %d, %v", err, paper.count, paper.period)
	}
	for period, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Microsecond, time.Microsecond: time.Microsecond, 1001: 2 * time.Microsecond, 65535 * time.Microsecond: 65535 * time.Microsecond,
	} {
		if err := cq.Moderate(16, period); err != nil || paper.period != want {
			t.Errorf("Moderate for %v: %v, %v", period, err, paper.period)
		}
	}
	for _, c := range []struct {
		count  int
		period time.Duration
	}{{-1, 0}, {1 << 16, 0}, {0, -1}, {0, 65536 * time.Microsecond}} {
		if err := cq.Moderate(c.count, c.period); !errors.Is(err, syscall.EINVAL) || paper.count != 16 {
			t.Errorf("Moderate(%d, %v): %v", c.count, c.period, err)
		}
	}
	p.refuse = syscall.EINVAL
	if err := cq.Resize(1 << 30); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "max_cqe") || cq.Depth() != 100 {
		t.Errorf("too deep: %v", err)
	}
	p.refuse = syscall.EOPNOTSUPP
	if err := cq.Moderate(1, 1); !errors.Is(err, stderrors.ErrUnsupported) {
		t.Errorf("a device without moderation: %v", err)
	}
	if d.CompVectors() != 2 {
		t.Errorf("%d vectors", d.CompVectors())
	}
	closeRoom(t, cq, d)
	if err := cq.Resize(1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Resize of a closed one: %v", err)
	}
	if err := cq.Moderate(1, 1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Moderate of a closed one: %v", err)
	}
	if n := d.CompVectors(); n != 0 {
		t.Errorf("a closed device has %d vectors", n)
	}
}
