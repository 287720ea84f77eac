// Endpoints on the device under test: two of them, or one with a fake peer.

package peertest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/job"
	"github.com/rawverbs/rawverbs/internal/testdevice"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// config is the configuration of an endpoint's connection.
func config(dev *verbs.Device, e job.Endpoint, limit time.Duration) rc.Config {
	cfg := rc.Config{Device: dev, Prepare: e.Prepare, Timeout: limit}
	e.Configure(&cfg)
	return cfg
}

// serve accepts one client, and runs the server's endpoint with it.
func serve(ctx context.Context, dev *verbs.Device, l *rc.Listener, e job.Endpoint, limit time.Duration) error {
	in, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	if g, ok := e.(job.Greeter); ok {
		if err := g.Greet(ctx, in.TCP()); err != nil {
			_ = in.TCP().Close() // the caller gets the error of Greet
			return err
		}
	}
	conn, err := in.Connect(ctx, config(dev, e, limit))
	if err != nil {
		return err
	}
	return job.Run(ctx, conn, e, limit)
}

// dial runs the client's endpoint with the server at an address.
func dial(ctx context.Context, dev *verbs.Device, address string, e job.Endpoint, limit time.Duration) error {
	conn, err := rc.Dial(ctx, address, config(dev, e, limit))
	if err != nil {
		return err
	}
	return job.Run(ctx, conn, e, limit)
}

// Between runs a client's endpoint with a server's.
func Between(t *testing.T, client, server job.Endpoint) (cerr, serr error) {
	t.Helper()
	dev := testdevice.Open(t)
	ctx, limit := testkit.Context(t), testkit.Limit
	l, err := rc.Listen(ctx, "127.0.0.1:0", rc.ListenConfig{Timeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var serving sync.WaitGroup
	serving.Go(func() { serr = serve(ctx, dev, l, server, limit) })
	cerr = dial(ctx, dev, l.Addr().String(), client, limit)
	serving.Wait()
	return cerr, serr
}

// Against runs an endpoint with a fake peer, and returns the endpoint's error. The job may
// stand still for as long as limit. The end of ctx ends it too.
func Against(ctx context.Context, t *testing.T, e job.Endpoint, client bool, limit time.Duration, fake func(net.Conn)) error {
	t.Helper()
	dev := testdevice.Open(t)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hung := time.AfterFunc(testkit.Limit+limit, func() {
		t.Error("the endpoint does not end")
		cancel()
	})
	defer hung.Stop()
	var peer sync.WaitGroup
	defer peer.Wait()
	if client {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		peer.Go(func() {
			if conn, err := l.Accept(); err == nil {
				fake(conn)
			}
		})
		return dial(ctx, dev, l.Addr().String(), e, limit)
	}
	l, err := rc.Listen(ctx, "127.0.0.1:0", rc.ListenConfig{Timeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer.Go(func() {
		if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String()); err == nil {
			fake(conn)
		}
	})
	return serve(ctx, dev, l, e, limit)
}
