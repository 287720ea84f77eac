//go:build !rdma

package run

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// handshakeOf returns the time at which the server's end of a handshake over a pipe was over, and the errors of both ends. The
// client waits for the pause before each step after the hello.
func handshakeOf(t *testing.T, dev *verbs.Device, l *rc.Listener, pipes chan net.Conn, timeout, pause time.Duration) (ended time.Time, atServer, atClient error) {
	t.Helper()
	near, far := net.Pipe()
	pipes <- far
	tcp, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	c := oob.NewConn(near, oob.Options{Timeout: time.Hour})
	defer c.Close()
	clients := make(chan error, 1)
	go func() {
		_, err := c.Hello(t.Context(), oob.Hello{Role: oob.RoleClient})
		for step := 0; err == nil && step < 4; step++ {
			time.Sleep(pause)
			switch me := (oob.Endpoint{QPType: oob.QPTypeRC, QPN: 0x1234, GID: netip.MustParseAddr("127.0.0.1").As16(), MTU: 1024, InitiatorDepth: 1, ResponderResources: 1}); step {
			case 0:
				_, err = c.ExchangeEndpoints(t.Context(), []oob.Endpoint{me})
			case 1:
				_, err = c.ExchangeRegions(t.Context(), nil)
			default:
				err = c.Barrier(t.Context(), []string{"receives posted", "in RTS"}[step-2])
			}
		}
		clients <- err
	}()
	in, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := in.Connect(t.Context(), rc.Config{Device: dev, Timeout: timeout})
	ended = time.Now()
	atClient = <-clients
	if conn != nil {
		conn.Close()
	}
	return ended, err, atClient
}

// TestHandshakeLimits checks, in simulated time, that each step of a handshake has the limit --timeout, and that a
// client that makes progress may take as long as it needs. Both ends say which limit has passed.
func TestHandshakeLimits(t *testing.T) {
	dev := softtest.Open(t)
	defer dev.Subscribe(func(verbs.AsyncEvent) {})() // so that the goroutine of the events is outside of the bubbles
	pipes := make(chan net.Conn, 1)
	l, err := rc.Listen(t.Context(), "127.0.0.1:0", rc.ListenConfig{Wrap: func(context.Context, net.Conn) (net.Conn, error) { return <-pipes, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const sinceHello = " has sent nothing since its hello; "
	for _, test := range []struct {
		name                 string
		timeout, pause, took time.Duration
		want                 []string
	}{
		{"silent", 2 * time.Second, time.Hour, 2 * time.Second, []string{"waiting for endpoints: timed out after 2s", sinceHello + "is it stopped", "allow a longer timeout"}},
		{"slow", 30 * time.Second, 25 * time.Second, 100 * time.Second, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ended, atServer, atClient := handshakeOf(t, dev, l, pipes, test.timeout, test.pause)
				if took := ended.Sub(began); took != test.took {
					t.Errorf("it took %v, want %v", took, test.took)
				}
				for end, err := range map[string]error{"server": atServer, "client": atClient} {
					if (err == nil) != (test.want == nil) {
						t.Errorf("%s: %v", end, err)
					}
					for _, want := range test.want {
						if err != nil && !strings.Contains(err.Error(), want) {
							t.Errorf("%s: %v; want %q", end, err, want)
						}
					}
				}
				if err := atServer; err != nil && !errors.As(err, new(*oob.TimeoutError)) {
					t.Error(err)
				}
			})
		})
	}
}
