package rc

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
)

// piped returns a Conn that has connected and has no queue pairs, and the peer's end of its TCP
// connection. It is for simulated time.
func piped(t *testing.T, cfg Config) (*Conn, *oob.Conn) {
	t.Helper()
	cfg = cfg.complete()
	near, far := net.Pipe()
	c := newConn(oob.NewConn(near, cfg.oobOptions()), oob.Hello{}, cfg, nil)
	if err := c.settle(t.Context(), "", nil); err != nil {
		t.Fatal(err)
	}
	return c, oob.NewConn(far, oob.Options{})
}

// TestTimeoutIsForConnecting has a handler that returned nil, and a client that READs for hours before its Finish.
func TestTimeoutIsForConnecting(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c, peer := piped(t, Config{Timeout: timeout})
			defer peer.Close()
			returnsNil := &service{s: &Server{}, ctx: t.Context(), hard: t.Context(), handler: func(context.Context, *Conn) error { return nil }}
			handled := make(chan error, 1)
			go func() { handled <- returnsNil.handle(c) }()
			time.Sleep(5 * time.Hour)
			if err := peer.Barrier(t.Context(), event.LastBarrier); err != nil {
				t.Errorf("Timeout %v: the client: %v", timeout, err)
			}
			if err := <-handled; err != nil {
				t.Errorf("Timeout %v: the handler: %v", timeout, err)
			}
		})
	}
}
