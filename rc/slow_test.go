package rc

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/oob"
)

// TestASlowClientLosesItsPlace: a client takes each step just in time, but all together for too long.
func TestASlowClientLosesItsPlace(t *testing.T) {
	cfg := ServerConfig{MaxConns: 1}
	cfg.Timeout = time.Second
	s := serve(t, cfg, untilEOF)
	c, err := oob.Dial(t.Context(), s.address, oob.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Hello(t.Context(), oob.Hello{Role: oob.RoleClient, Job: "serving"}); err != nil {
		t.Fatal(err)
	}
	steps := []func() error{
		func() error {
			_, err := c.ExchangeEndpoint(t.Context(), oob.Endpoint{QPType: oob.QPTypeRC, QPN: 0xfffff0, PSN: 1, GID: netip.MustParseAddr("127.0.0.1").As16(), MTU: 256})
			return err
		},
		func() error { _, err := c.ExchangeRegions(t.Context(), nil); return err },
		func() error { return c.Barrier(t.Context(), barrierReceives) },
	}
	for i, step := range steps {
		time.Sleep(cfg.Timeout * 6 / 10)
		if err = step(); err != nil {
			t.Logf("step %d: %v", i, err)
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "timed out after") {
		t.Errorf("the slow client gets %v", err)
	}
	conn, _, err := s.client(t)
	if err != nil {
		t.Fatal("the next client:", err)
	}
	conn.Close()
}

// TestTheServersLimit: a Timeout below 0 means no limit for the steps after the hello.
func TestTheServersLimit(t *testing.T) {
	for timeout, want := range map[time.Duration]bool{0: true, time.Second: true, -1: false} {
		v := &service{s: &Server{}, ctx: t.Context()}
		v.s.cfg.Timeout = timeout
		ctx, cancel := v.limited()
		if _, limited := ctx.Deadline(); limited != want {
			t.Errorf("Timeout %v: limited %v, want %v", timeout, limited, want)
		}
		cancel()
	}
}
