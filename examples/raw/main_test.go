package main

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

func listen(t *testing.T) *oob.Listener {
	listener, err := oob.Listen(t.Context(), "127.0.0.1:0", oob.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func TestRoundTrips(t *testing.T) {
	device := softtest.Open(t).Name()
	listener := listen(t)
	served := make(chan error, 1)
	go func() { served <- serve(t.Context(), device, listener) }()
	each, err := measure(t.Context(), device, listener.Addr().String())
	if err := errors.Join(err, <-served); err != nil {
		t.Fatal(err)
	}
	if each <= 0 {
		t.Errorf("a round trip of %v", each)
	}
}

// TestPeerDies has a server that ends at each step.
func TestPeerDies(t *testing.T) {
	device := softtest.Open(t).Name()
	for name, leave := range map[string]func(ctx context.Context, tcp *oob.Conn) error{
		"at once": func(context.Context, *oob.Conn) error { return nil },
		"after hello": func(ctx context.Context, tcp *oob.Conn) error {
			_, err := tcp.Hello(ctx, oob.Hello{Role: oob.RoleServer, Job: "raw"})
			return err
		},
		"in RTS": func(ctx context.Context, tcp *oob.Conn) error {
			if _, err := tcp.Hello(ctx, oob.Hello{Role: oob.RoleServer, Job: "raw"}); err != nil {
				return err
			}
			e := &end{}
			err := e.connect(ctx, device, tcp)
			for i := range e.made {
				err = errors.Join(err, e.made[len(e.made)-1-i].Close())
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			listener := listen(t)
			defer listener.Close()
			left := make(chan error, 1)
			go func() {
				tcp, err := listener.Accept(t.Context())
				if err == nil {
					err = errors.Join(leave(t.Context(), tcp), tcp.Close())
				}
				left <- err
			}()
			ctx := testkit.Context(t)
			_, err := measure(ctx, device, listener.Addr().String())
			if err == nil || ctx.Err() != nil {
				t.Errorf("the client ended with %v, at %v", err, ctx.Err())
			}
			if err := <-left; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWrongArguments(t *testing.T) {
	if err := run(t.Context(), []string{"serve", "x"}); err == nil || !strings.Contains(err.Error(), "try: raw server") {
		t.Error(err)
	}
	listener := listen(t)
	served := make(chan error, 1)
	go func() { served <- serve(t.Context(), softtest.Open(t).Name(), listener) }()
	_, err := measure(t.Context(), "nodevice", listener.Addr().String())
	if !errors.Is(err, syscall.ENODEV) {
		t.Errorf("the client ended with %v", err)
	}
	var peer *oob.PeerError
	if err := <-served; !errors.As(err, &peer) || !strings.Contains(err.Error(), "nodevice") {
		t.Errorf("the server ended with %v", err)
	}
}
