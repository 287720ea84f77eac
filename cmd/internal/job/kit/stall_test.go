package kit

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func nothing() bool { return false }

// TestUntilStalled checks that a job goes on while it makes progress, and ends the limit after
// its last progress.
func TestUntilStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := untilStalled(t.Context(), 30*time.Second, nothing)
		defer cancel()
		for range 10 {
			time.Sleep(29 * time.Second)
			Progress(ctx)
		}
		began := time.Now()
		<-ctx.Done()
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it ended %v after the last move", took)
		}
		if err := context.Cause(ctx); !strings.Contains(err.Error(), "made no progress for 30s; try: a longer --timeout") {
			t.Error(err)
		}
	})
}

// TestStallWatchEnds checks that a job leaves no goroutine; otherwise the bubble panics.
func TestStallWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := untilStalled(t.Context(), time.Hour, nothing)
		cancel()
		if err := context.Cause(ctx); err != context.Canceled {
			t.Error(err)
		}
	})
}

func TestProgressAllocatesNothing(t *testing.T) {
	ctx, cancel := untilStalled(t.Context(), time.Hour, nothing)
	defer cancel()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if n := testing.AllocsPerRun(100, func() { Progress(ctx) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	Progress(t.Context()) // a context of no job
}

// TestArrivalsAreProgress checks that the peer's packets count, although they complete nothing here.
func TestArrivalsAreProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMotion()
		time.Sleep(time.Second)
		if still, moved := m.Idle(); still != time.Second || moved {
			t.Errorf("before the job: %v, %v", still, moved)
		}
		var comes atomic.Bool
		comes.Store(true)
		ctx, cancel := untilStalled(WithMotion(t.Context(), m), 5*time.Second, comes.Load)
		defer cancel()
		if still, moved := m.Idle(); still != 0 || moved {
			t.Errorf("when the job begins: %v, %v", still, moved)
		}
		time.Sleep(time.Minute)
		if still, moved := m.Idle(); still > lookEvery || !moved || ctx.Err() != nil {
			t.Errorf("after a minute: %v, %v, %v", still, moved, ctx.Err())
		}
		comes.Store(false)
		time.Sleep(6 * time.Second)
		if !errors.As(context.Cause(ctx), new(*StallError)) {
			t.Error(context.Cause(ctx))
		}
	})
}
