package ctxwatch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

type counter struct{ n atomic.Int32 }

func (c *counter) Interrupt() { c.n.Add(1) }

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		var c counter
		seen := func(what string, want int32) {
			t.Helper()
			synctest.Wait()
			if n := c.n.Swap(0); n != want {
				t.Errorf("%s: %d interrupts, want %d", what, n, want)
			}
		}
		first, endFirst := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		third, endThird := context.WithCancel(t.Context())
		for range 3 {
			w.Set(first, &c)
		}
		endFirst()
		seen("the end of a context", 1)
		w.Set(first, &c)
		seen("the same context again", 0)
		w.Set(second, &c)
		w.Set(third, &c)
		endSecond()
		seen("the end of a context that is no longer watched", 0)
		w.Set(context.Background(), &c)
		endThird()
		seen("the background context", 0)
		w.Set(first, &c)
		seen("a context that had ended before Set", 1)
		w.End()
		w.End()
		fourth, endFourth := context.WithCancel(t.Context())
		w.Set(fourth, &c)
		w.End()
		endFourth()
		seen("after End", 0)
	})
}

func TestWatchAllocatesOnce(t *testing.T) {
	var w Watch
	var c counter
	w.Set(t.Context(), &c)
	if n := testing.AllocsPerRun(100, func() { w.Set(t.Context(), &c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	w.End()
}
