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
	var waits []context.Context
	var leaves []func()
	come := func() {
		ctx, leave := l.Enter(t.Context(), time.Hour)
		waits, leaves = append(waits, ctx), append(leaves, leave)
	}
	for range maxSilent {
		come()
	}
	leaves[1]()
	come() // in the place of the one that left
	for i, ctx := range waits {
		if i != 1 && ctx.Err() != nil {
			t.Fatalf("peer %d was dropped: %v", i, context.Cause(ctx))
		}
	}
	come()
	come()
	for i, ctx := range waits {
		switch cause := context.Cause(ctx); {
		case i == 0 || i == 2:
			if !errors.Is(cause, errCrowded) {
				t.Errorf("peer %d: %v, want %v", i, cause, errCrowded)
			}
		case i != 1 && cause != nil:
			t.Errorf("peer %d was dropped: %v", i, cause)
		}
	}
	for _, leave := range leaves {
		leave()
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

func TestSilenceHasALimit(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: HelloLimit} {
		synctest.Test(t, func(t *testing.T) {
			l := Lobby{size: 1}
			ctx, leave := l.Enter(t.Context(), timeout)
			defer leave()
			began := time.Now()
			<-ctx.Done()
			if got := time.Since(began); got != want || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("--timeout %v: %v after %v, want %v", timeout, ctx.Err(), got, want)
			}
		})
	}
}
