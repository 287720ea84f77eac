package admission

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// TestSilentClientsMakeRoom checks that one silent client too many replaces the oldest of the address that has
// most, and no other. A client that says hello makes room.
func TestSilentClientsMakeRoom(t *testing.T) {
	ac := New(Limits{})
	ac.maxSilent = 10
	var all []*Client
	come := func(from netip.Addr) {
		all = append(all, ac.enter(t.Context(), &net.TCPAddr{}, &net.TCPAddr{IP: from.AsSlice()}))
	}
	greet := func(c *Client) { _ = c.Hello(time.Hour, func(context.Context) error { return nil }) }
	dropped := func(want ...int) {
		t.Helper()
		for i, c := range all {
			cause := context.Cause(c.ctx)
			if len(want) > 0 && want[0] == i {
				want = want[1:]
				if !errors.Is(cause, ErrCrowded) {
					t.Errorf("client %d: %v, want %v", i, cause, ErrCrowded)
				}
			} else if cause != nil {
				t.Errorf("client %d was dropped: %v", i, cause)
			}
		}
	}
	come(other)
	for range 9 {
		come(one)
	}
	greet(all[2])
	come(one) // in the room of the one that said hello
	dropped()
	come(one)
	come(other)
	dropped(1, 3)
	for range 100 {
		come(one)
	}
	for i := range 2 {
		if c := all[[]int{0, 12}[i]]; c.ctx.Err() != nil {
			t.Errorf("a client of another address was dropped: %v", context.Cause(c.ctx))
		}
	}
	for _, c := range all {
		greet(c)
		c.Leave()
	}
	if len(ac.silent) != 0 {
		t.Errorf("%d clients are still silent", len(ac.silent))
	}
}

// TestSilentFor checks that silent clients leave file descriptors to the others.
func TestSilentFor(t *testing.T) {
	for files, want := range map[uint64]int{3: 1, 256: 64, 4095: 1023, 4096: mostSilent, 1 << 40: mostSilent, 1<<64 - 1: mostSilent} {
		if got := silentFor(files); got != want {
			t.Errorf("%d open files: %d silent clients, want %d", files, got, want)
		}
	}
}

// TestSilenceHasALimit checks that the time counts from Hello, not from accept.
func TestSilenceHasALimit(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: HelloLimit} {
		synctest.Test(t, func(t *testing.T) {
			c := New(Limits{}).enter(t.Context(), &net.TCPAddr{}, &net.TCPAddr{})
			time.Sleep(time.Hour)
			began := time.Now()
			err := c.Hello(timeout, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			if got := time.Since(began); got != want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("--timeout %v: %v after %v, want %v", timeout, err, got, want)
			}
		})
	}
}
