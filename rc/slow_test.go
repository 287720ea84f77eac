package rc

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
)

// TestASlowClientLosesItsPlace: a client takes each step just in time, but all together for too long. On a
// slow host it is later still.
func TestASlowClientLosesItsPlace(t *testing.T) {
	cfg := ServerConfig{MaxConns: 1}
	cfg.Timeout = 10 * testkit.Moment
	s := serve(t, cfg, untilEOF)
	c, err := oob.Dial(t.Context(), s.address, oob.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hello := func() error {
		_, err := c.Hello(t.Context(), oob.Hello{Role: oob.RoleClient, Job: "serving"})
		return err
	}
	steps := []func() error{
		func() error {
			_, err := c.ExchangeEndpoint(t.Context(), oob.Endpoint{QPType: oob.QPTypeRC, QPN: 0xfffff0, PSN: 1, GID: netip.MustParseAddr("127.0.0.1").As16(), MTU: 256})
			return err
		},
		func() error { _, err := c.ExchangeRegions(t.Context(), nil); return err },
		func() error { return c.Barrier(t.Context(), barrierReceives) },
	}
	err = hello()
	for i := 0; err == nil && i < len(steps); i++ {
		time.Sleep(cfg.Timeout * 6 / 10)
		err = steps[i]()
	}
	closed := errors.As(err, new(*oob.ClosedError)) // if the host stood still, the server may close without a word
	if err == nil || !closed && !strings.Contains(err.Error(), "timed out after") {
		t.Errorf("the slow client gets %v", err)
	}
	testkit.Until(t, "place for the next client", func() bool {
		var next *Conn
		if next, _, err = s.client(t); err == nil {
			next.Close()
		}
		return err == nil
	}, func() string { return err.Error() })
}

// TestTheServersLimit: a Timeout below 0 means no limit for the steps after the hello.
func TestTheServersLimit(t *testing.T) {
	for timeout, want := range map[time.Duration]bool{0: true, time.Second: true, -1: false} {
		v := &service{s: &Server{}, ctx: t.Context()}
		v.s.cfg.Timeout = timeout
		ctx, cancel := v.limited(v.ctx)
		if _, limited := ctx.Deadline(); limited != want {
			t.Errorf("Timeout %v: limited %v, want %v", timeout, limited, want)
		}
		cancel()
	}
}
