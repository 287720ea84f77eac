package rc

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/sync/turn"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// writes returns n signaled WRITEs of 8 bytes into the peer's region.
func (e *end) writes(n int) []verbs.SendWR {
	region, _ := e.PeerRegion("test")
	wrs := make([]verbs.SendWR, n)
	for i := range wrs {
		wrs[i] = verbs.SendWR{
			ID: uint64(i), Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
			SGL: []verbs.SGE{e.mr.SGE(0, 8)}, RemoteAddr: region.Addr, RKey: region.RKey,
		}
	}
	return wrs
}

func TestWaitSendsTakesABatch(t *testing.T) {
	c, _ := pair(t, Config{}, Config{})
	if err := c.QP().PostSend(c.writes(8)); err != nil {
		t.Fatal(err)
	}
	var wcs [5]verbs.WC
	for next := uint64(0); next < 8; {
		n, err := c.WaitSends(t.Context(), wcs[:])
		if err != nil || n < 1 {
			t.Fatalf("%d, %v", n, err)
		}
		for _, wc := range wcs[:n] {
			if wc.ID != next || wc.Opcode != verbs.WCRDMAWrite {
				t.Errorf("%+v, want %d", wc, next)
			}
			next++
		}
	}
}

func TestWaitRecvsTakesABatch(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	for range 4 {
		c.post(t, verbs.SendWR{Opcode: verbs.OpSend}, 8)
	}
	var wcs [16]verbs.WC
	for got := 0; got < 4; {
		n, err := s.WaitRecvs(t.Context(), wcs[:])
		if err != nil || n < 1 {
			t.Fatalf("%d, %v", n, err)
		}
		got += n
	}
}

func TestABatchedWaitEnds(t *testing.T) {
	t.Run("asleep", func(t *testing.T) { testBatchedWaitEnds(t, Config{}) })
	t.Run("spinning", func(t *testing.T) { testBatchedWaitEnds(t, Config{Spin: time.Millisecond}) })
}

func testBatchedWaitEnds(t *testing.T, cfg Config) {
	var wcs [4]verbs.WC
	t.Run("with its context", func(t *testing.T) {
		c, _ := pair(t, cfg, cfg)
		if n, err := c.WaitSends(testkit.Expiring(t), wcs[:]); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("with the peer", func(t *testing.T) {
		c, s := pair(t, cfg, cfg)
		time.AfterFunc(testkit.Moment, func() { s.Close() })
		if n, err := c.WaitSends(t.Context(), wcs[:]); n != 0 || !errors.As(err, new(*oob.ClosedError)) {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("after it has given what there is", func(t *testing.T) {
		c, s := pair(t, cfg, cfg)
		c.post(t, verbs.SendWR{Opcode: verbs.OpSend}, 8)
		if err := c.Send(t.Context(), c.mr.Slice(4*slot, 8)); err != nil { // completes after the other
			t.Fatal(err)
		}
		s.Close()
		<-c.ctx.Done()
		if n, err := c.WaitSends(t.Context(), wcs[:]); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := c.WaitSends(t.Context(), wcs[:]); n != 0 || !errors.As(err, new(*oob.ClosedError)) {
			t.Errorf("then %d, %v", n, err)
		}
	})
	t.Run("with Close", func(t *testing.T) {
		c, _ := pair(t, cfg, cfg)
		time.AfterFunc(testkit.Moment, func() { c.Close() })
		if n, err := c.WaitSends(t.Context(), wcs[:]); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := c.WaitSends(t.Context(), wcs[:]); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("after it: %d, %v", n, err)
		}
	})
	t.Run("at once without room", func(t *testing.T) {
		c, _ := pair(t, cfg, cfg)
		if n, err := c.WaitSends(t.Context(), nil); n != 0 || err == nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// TestABatchedWaitAllocatesNothing waits with a context that can end.
func TestABatchedWaitAllocatesNothing(t *testing.T) {
	if allocs := waitAllocations(t, time.Millisecond); allocs != 0 {
		t.Errorf("%v allocations for posting 8 requests and taking their completions", allocs)
	}
}

// waitAllocations counts the allocations of posting 8 requests and waiting for them. A delay lets them
// complete before the wait.
func waitAllocations(t *testing.T, delay time.Duration) float64 {
	c, _ := pair(t, Config{}, Config{})
	ctx := testkit.Context(t)
	wrs := c.writes(8)
	wcs := make([]verbs.WC, 8)
	return testkit.Allocations(t, 20, func() {
		if err := c.QP().PostSend(wrs); err != nil {
			t.Fatal(err)
		}
		time.Sleep(delay)
		for got := 0; got < len(wrs); {
			n, err := c.WaitSends(ctx, wcs)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
	})
}

// TestABatchHasTheFailedOnes checks that a failed completion is no error of the batch, because the
// usual "if err != nil" would lose the others.
func TestABatchHasTheFailedOnes(t *testing.T) {
	c, _ := pair(t, Config{}, Config{})
	wrs := c.writes(4)
	wrs[1].RKey++
	if err := c.QP().PostSend(wrs); err != nil {
		t.Fatal(err)
	}
	var got []verbs.WC
	for len(got) < len(wrs) {
		var wcs [4]verbs.WC
		n, err := c.WaitSends(t.Context(), wcs[:])
		if n < 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		got = append(got, wcs[:n]...)
	}
	for i, want := range []verbs.WCStatus{verbs.WCSuccess, verbs.WCRemAccessErr, verbs.WCWRFlushErr, verbs.WCWRFlushErr} {
		if got[i].ID != uint64(i) || got[i].Status != want {
			t.Errorf("completion %d is %+v, want %v", i, got[i], want)
		}
	}
}

// BenchmarkWaitSends posts 8 WRITEs of 8 bytes and waits for all.
func BenchmarkWaitSends(b *testing.B) {
	c, _ := pair(b, Config{}, Config{})
	wrs, wcs := c.writes(8), make([]verbs.WC, 8)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if err := c.QP().PostSend(wrs); err != nil {
			b.Fatal(err)
		}
		for got := 0; got < len(wrs); {
			n, err := c.WaitSends(ctx, wcs)
			if err != nil {
				b.Fatal(err)
			}
			got += n
		}
	}
}

// BenchmarkWaitSend does the same with a call for each.
func BenchmarkWaitSend(b *testing.B) {
	c, _ := pair(b, Config{}, Config{})
	wrs := c.writes(8)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if err := c.QP().PostSend(wrs); err != nil {
			b.Fatal(err)
		}
		for range wrs {
			if _, err := c.WaitSend(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestCloseWaitsForHandledCompletions: Close counts the waits of package rnet, and later ones end at once.
func TestCloseWaitsForHandledCompletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Conn{ctx: t.Context(), sends: dispatch.New(nil).NewRoute(0, nil)}
		wait := func(ready func() bool) error {
			c.sends.Turn().Lock()
			defer c.sends.Turn().Unlock()
			return c.Completions().Await(t.Context(), c.ctx, turn.NewWaiter(), ready)
		}
		over := make(chan struct{})
		go func() { _ = wait(func() bool { <-over; return true }) }()
		synctest.Wait()
		c.mu.Lock()
		c.closing = true
		c.mu.Unlock()
		var waited atomic.Bool
		go func() {
			c.calls.Wait()
			waited.Store(true)
		}()
		synctest.Wait()
		if waited.Load() {
			t.Error("Close does not wait for the wait")
		}
		close(over)
		synctest.Wait()
		if err := wait(func() bool { t.Error("a wait begins after Close"); return true }); !waited.Load() || !errors.Is(err, net.ErrClosed) {
			t.Errorf("Close waits: %v; a later wait: %v", !waited.Load(), err)
		}
	})
}
