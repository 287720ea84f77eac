// Endpoints on the device under test: two of them, or one with a fake peer.

package peertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// config is the configuration of an endpoint's connection.
func config(dev *verbs.Device, e kit.Endpoint, limit time.Duration) rc.Config {
	cfg := rc.Config{Device: dev, Prepare: e.Prepare, Timeout: limit}
	e.Configure(&cfg)
	return cfg
}

// serve accepts one client, and runs the server's endpoint with it.
func serve(ctx context.Context, dev *verbs.Device, l *rc.Listener, e kit.Endpoint, limit time.Duration) error {
	in, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	if g, ok := e.(kit.Greeter); ok {
		if err := g.Greet(ctx, in.TCP()); err != nil {
			_ = in.TCP().Close() // the caller gets the error of Greet
			return err
		}
	}
	conn, err := in.Connect(ctx, config(dev, e, limit))
	if err != nil {
		return err
	}
	return kit.Run(ctx, conn, e, limit, slog.New(slog.DiscardHandler))
}

// dial runs the client's endpoint with the server at an address.
func dial(ctx context.Context, dev *verbs.Device, address string, e kit.Endpoint, limit time.Duration) error {
	conn, err := rc.Dial(ctx, address, config(dev, e, limit))
	if err != nil {
		return err
	}
	return kit.Run(ctx, conn, e, limit, slog.New(slog.DiscardHandler))
}

// Between runs a client's endpoint with a server's.
func Between(t *testing.T, client, server kit.Endpoint) (cerr, serr error) {
	t.Helper()
	dev := softtest.Open(t)
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
func Against(ctx context.Context, t *testing.T, e kit.Endpoint, client bool, limit time.Duration, fake func(net.Conn)) error {
	t.Helper()
	dev := softtest.Open(t)
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

// NewEnd returns an endpoint made from command line flags, and the text that it logs.
func NewEnd(t *testing.T, of kit.Type, client bool, args ...string) (kit.Endpoint, *bytes.Buffer) {
	t.Helper()
	f, define := pflag.NewFlagSet("", pflag.ContinueOnError), of.Server
	if client {
		define = of.Client
	}
	side := define(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	e, err := side.NewEndpoint(kit.Session{Logger: slog.New(trace.NewNarration(&out, slog.LevelInfo, 0)), Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	return e, &out
}

// Strangers are what other programs say, and what the error of an end must say then.
var Strangers = map[string]string{
	"":      "closed the connection before it sent anything",
	"short": "after 5 of ",
	"GET / HTTP/1.1\r\nHost: someone.example\r\nUser-Agent: someone\r\n\r\n": "like an HTTP client",
	"HTTP/1.1 400 Bad Request\r\nServer: someone\r\nConnection: close\r\n":   "like an HTTP server",
	"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n" + strings.Repeat("\x00", 64):        "like an SSH server",
	"6.06" + strings.Repeat("\x00", 64):                                      "like a perftest program",
	"RVO\n\x01\x01\x00\x00\x00\x00\x00\x27" + strings.Repeat("\x00", 64):     "native format",
}

// Meet connects both ends of a job to each stranger, and to one that stays and says nothing.
func Meet(t *testing.T, of kit.Type, strangers map[string]string, args ...string) {
	for says, want := range strangers {
		meet(t, of, says, want, testkit.Limit, args)
	}
	meet(t, of, "stays", "is silent", 200*time.Millisecond, args)
}

func meet(t *testing.T, of kit.Type, says, want string, limit time.Duration, args []string) {
	for _, client := range []bool{true, false} {
		t.Run(fmt.Sprintf("%.20q, client %v", says, client), func(t *testing.T) {
			t.Parallel()
			e, _ := NewEnd(t, of, client, args...)
			err := Against(t.Context(), t, e, client, limit, func(c net.Conn) {
				defer c.Close()
				if limit == testkit.Limit {
					_, _ = io.WriteString(c, says) // the end may have hung up
					_ = c.(*net.TCPConn).CloseWrite()
				}
				_, _ = io.Copy(io.Discard, c)
			})
			if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsFunc(err.Error(), Unprintable) {
				t.Errorf("%v; want %q", err, want)
			}
		})
	}
}
