package softroce_test

import (
	"context"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	_ "github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// openSoft opens a device and closes it when the test ends.
func openSoft(tb testing.TB, name string) *verbs.Device {
	tb.Helper()
	dev, err := verbs.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := dev.Close(); err != nil {
			tb.Error(err)
		}
	})
	return dev
}

// limited returns a context that has the kit's limit. In a benchmark, which may take longer, it ends with the benchmark.
func limited(tb testing.TB) context.Context {
	if b, ok := tb.(*testing.B); ok {
		return b.Context()
	}
	return testkit.Context(tb)
}

// connect connects a queue pair of device a with a queue pair of device b. Both ends use cfg,
// except for the device.
func connect(tb testing.TB, a, b *verbs.Device, cfg rc.Config) (*rc.Conn, *rc.Conn) {
	tb.Helper()
	ctx := testkit.Context(tb)
	cfg.Access = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic
	client, server := cfg, cfg
	client.Device, server.Device = a, b
	l, err := rc.Listen(ctx, "127.0.0.1:0", rc.ListenConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	type result struct {
		conn *rc.Conn
		err  error
	}
	accepted := make(chan result, 1)
	go func() {
		in, err := l.Accept(ctx)
		if err == nil {
			_, err = in.Hello(ctx)
		}
		if err != nil {
			accepted <- result{err: err}
			return
		}
		conn, err := in.Connect(ctx, server)
		accepted <- result{conn, err}
	}()
	c, err := rc.Dial(ctx, l.Addr().String(), client)
	s := <-accepted
	if err != nil || s.err != nil {
		tb.Fatalf("client: %v; server: %v", err, s.err)
	}
	tb.Cleanup(func() {
		for _, conn := range []*rc.Conn{c, s.conn} {
			if err := conn.Close(); err != nil {
				tb.Error(err)
			}
		}
	})
	return c, s.conn
}
