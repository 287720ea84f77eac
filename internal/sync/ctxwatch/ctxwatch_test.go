package ctxwatch

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

type counter struct{ n atomic.Int32 }

func (c *counter) Interrupt() { c.n.Add(1) }

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		var c counter
		seen := func(what string, want int32) {
			t.Helper()
			time.Sleep(2 * patience)
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
		seen("nothing yet", 0)
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

// TestAnEndedContextIsDropped: whoever waited last may leave its Watch as it is, and keeps nothing alive.
func TestAnEndedContextIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		var c counter
		type key struct{}
		held := weak.Make(func() *[64]byte {
			value := new([64]byte)
			ctx, end := context.WithCancel(context.WithValue(t.Context(), key{}, value))
			w.Set(ctx, &c)
			time.Sleep(2 * patience)
			end()
			synctest.Wait()
			return value
		}())
		runtime.GC()
		if held.Value() != nil {
			t.Error("the context is kept")
		}
		w.End()
	})
}

// TestAnEndBeforePatience: a context that ends at once still interrupts.
func TestAnEndBeforePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		var c counter
		for range 3 {
			ctx, end := context.WithCancel(t.Context())
			w.Set(ctx, &c)
			end()
			time.Sleep(2 * patience)
			synctest.Wait()
			if n := c.n.Swap(0); n != 1 {
				t.Errorf("%d interrupts, want 1", n)
			}
		}
		w.End()
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

// TestShortWatchesAllocateNothing: a context per wait costs what the context costs.
func TestShortWatchesAllocateNothing(t *testing.T) {
	var w Watch
	var c counter
	one, endOne := context.WithCancel(t.Context())
	defer endOne()
	two, endTwo := context.WithCancel(t.Context())
	defer endTwo()
	w.Set(one, &c)
	n := testing.AllocsPerRun(1000, func() {
		w.Set(two, &c)
		w.Set(one, &c)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	w.End()
}
