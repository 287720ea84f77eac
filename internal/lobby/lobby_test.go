package lobby

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Who has been silent for the longest goes when there is one too many, and nobody
// else does; who has left makes room.
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
	come() // in its place
	for i, ctx := range waits {
		if i != 1 && ctx.Err() != nil {
			t.Fatalf("number %d had to go: %v", i, context.Cause(ctx))
		}
	}
	come()
	come()
	for i, ctx := range waits {
		switch cause := context.Cause(ctx); {
		case i == 0 || i == 2:
			if !errors.Is(cause, errCrowded) {
				t.Errorf("number %d: %v, want %v", i, cause, errCrowded)
			}
		case i != 1 && cause != nil:
			t.Errorf("number %d had to go: %v", i, cause)
		}
	}
	for _, leave := range leaves {
		leave()
	}
	if len(l.silent) != 0 {
		t.Errorf("%d are left of nobody", len(l.silent))
	}
}

// The silent leave descriptors to the clients.
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
