package testkit

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a test whose failure this test looks at.
type fake struct {
	testing.TB
	text string
}

func (f *fake) Fatal(args ...any) { f.text = args[0].(string); panic(f) }

// failure returns the text with which f ends its test.
func failure(t *testing.T, f func(tb testing.TB)) string {
	tb := &fake{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(tb) {
				panic(r)
			}
		}()
		f(tb)
	}()
	return tb.text
}

// TestLimit: a wait whose event never comes ends after Limit, with what was seen.
func TestLimit(t *testing.T) {
	for name, wait := range map[string]func(tb testing.TB){
		"Until": func(tb testing.TB) {
			Until(tb, "end of the world", func() bool { return false }, func() string { return "it turns" })
		},
		"Receive": func(tb testing.TB) {
			Receive(tb, make(chan int), "end of the world", func() string { return "it turns" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				text := failure(t, wait)
				if took := time.Since(began); took < Limit || took > Limit+2*interval {
					t.Errorf("the wait took %v", took)
				}
				if !strings.HasPrefix(text, "no end of the world within "+Limit.String()) || !strings.HasSuffix(text, "\nit turns") {
					t.Errorf("the failure is %q", text)
				}
			})
		})
	}
}

// TestEvent: a wait ends with its event.
func TestEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Until(t, "second", func() bool { return time.Since(began) >= time.Second })
		c := make(chan string, 1)
		time.AfterFunc(time.Second, func() { c <- "value" })
		if v := Receive(t, c, "value"); v != "value" || time.Since(began) != 2*time.Second {
			t.Errorf("%q after %v", v, time.Since(began))
		}
	})
}

// TestContexts: the contexts end, with a cause that says why.
func TestContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := Context(t)
		if at, _ := ctx.Deadline(); !at.Equal(Deadline()) {
			t.Errorf("the deadline is %v, want %v", at, Deadline())
		}
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !strings.Contains(context.Cause(ctx).Error(), t.Name()) {
			t.Errorf("%v because of %v", ctx.Err(), context.Cause(ctx))
		}
		began := time.Now()
		<-Expiring(t).Done()
		if took := time.Since(began); took != Moment {
			t.Errorf("the context ended after %v", took)
		}
	})
}

// TestIPv6Loopback: of several tests that want ::1 one has it at a time.
func TestIPv6Loopback(t *testing.T) {
	var holders atomic.Int32
	for range 3 {
		t.Run("test", func(t *testing.T) {
			t.Parallel()
			if !IPv6Loopback(t) {
				t.Skip("this host has no ::1")
			}
			if n := holders.Add(1); n != 1 {
				t.Errorf("%d tests have it", n)
			}
			time.Sleep(Moment)
			holders.Add(-1)
		})
	}
}

var sink []byte

// TestAllocations: what each call allocates is counted, and what happens now and then is not.
func TestAllocations(t *testing.T) {
	if n := Allocations(t, 100, func() { sink = make([]byte, 1<<10) }); n < 1 || n > 2 {
		t.Errorf("%v allocations per call, want 1", n)
	}
	calls := 0
	if n := Allocations(t, 100, func() {
		if calls++; calls < 500 && calls%7 == 0 {
			sink = make([]byte, 1<<10)
		}
	}); n != 0 {
		t.Errorf("%v allocations per call, want none", n)
	}
}
