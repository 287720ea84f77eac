package job

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestUntilStalled checks that a job goes on while it makes progress, and ends the limit after
// its last progress.
func TestUntilStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := untilStalled(t.Context(), 30*time.Second)
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
		ctx, cancel := untilStalled(t.Context(), time.Hour)
		cancel()
		if err := context.Cause(ctx); err != context.Canceled {
			t.Error(err)
		}
	})
}

func TestProgressAllocatesNothing(t *testing.T) {
	ctx, cancel := untilStalled(t.Context(), time.Hour)
	defer cancel()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if n := testing.AllocsPerRun(100, func() { Progress(ctx) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	Progress(t.Context()) // a context of no job
}
