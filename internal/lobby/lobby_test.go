package lobby

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLobbyIsNeverFull checks that one peer too many replaces the one that has been silent
// longest, and no other. A peer that leaves makes room.
func TestLobbyIsNeverFull(t *testing.T) {
	l := Lobby{size: maxSilent}
	var guests []*Guest
	come := func() { guests = append(guests, l.Enter(t.Context())) }
	leave := func(g *Guest) { _ = g.Wait(time.Hour, func(context.Context) error { return nil }) }
	for range maxSilent {
		come()
	}
	leave(guests[1])
	come() // in the place of the one that left
	for i, g := range guests {
		if i != 1 && g.ctx.Err() != nil {
			t.Fatalf("peer %d was dropped: %v", i, context.Cause(g.ctx))
		}
	}
	come()
	come()
	for i, g := range guests {
		switch cause := context.Cause(g.ctx); {
		case i == 0 || i == 2:
			if !errors.Is(cause, errCrowded) {
				t.Errorf("peer %d: %v, want %v", i, cause, errCrowded)
			}
		case i != 1 && cause != nil:
			t.Errorf("peer %d was dropped: %v", i, cause)
		}
	}
	for _, g := range guests {
		leave(g)
	}
	if len(l.silent) != 0 {
		t.Errorf("%d peers are still in the lobby", len(l.silent))
	}
}

// TestLobbySize checks that the lobby leaves file descriptors to the clients.
func TestLobbySize(t *testing.T) {
	for files, want := range map[uint64]int{3: 1, 256: 64, 4095: 1023, 4096: maxSilent, 1 << 40: maxSilent, 1<<64 - 1: maxSilent} {
		if got := sizeFor(files); got != want {
			t.Errorf("%d open files: a lobby of %d, want %d", files, got, want)
		}
	}
}

// TestSilenceHasALimit checks that the time counts from the wait, not from the entrance.
func TestSilenceHasALimit(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: HelloLimit} {
		synctest.Test(t, func(t *testing.T) {
			l := Lobby{size: 1}
			g := l.Enter(t.Context())
			time.Sleep(time.Hour)
			began := time.Now()
			err := g.Wait(timeout, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			if got := time.Since(began); got != want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("--timeout %v: %v after %v, want %v", timeout, err, got, want)
			}
		})
	}
}
