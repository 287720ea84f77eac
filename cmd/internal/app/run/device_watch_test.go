package run

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// TestAddressGoes takes the address of --listen away for a while. No device has an event for it, and the server logs both changes,
// once each. An event's line says it too.
func TestAddressGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Bool
		l := &lab{lines: make(chan string, 16)}
		port := &portWatch{log: slog.New(slog.NewTextHandler(l, nil)), check: func() error {
			if gone.Load() {
				return errors.New("no interface has the address")
			}
			return nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go port.watch(ctx)
		after := func(parts ...string) {
			t.Helper()
			time.Sleep(3 * checkEvery)
			l.logged(t, parts...)
		}
		after()
		gone.Store(true)
		after("level=WARN msg=\"no client can connect: no interface has the address\" event=server.reachable")
		gone.Store(false)
		after("level=WARN msg=\"clients can connect again\" event=server.reachable")
		gone.Store(true)
		port.heard(verbs.AsyncEvent{Type: verbs.EventGIDChange, Port: 1})
		after("so=\"no client can connect: no interface has the address\"")
	})
}
