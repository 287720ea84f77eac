package rnet

import (
	"context"
	"io"
	"sync"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// TestAttachToAServer: the Conns of one rc.Server share a completion queue, so each goroutine that waits polls for all.
func TestAttachToAServer(t *testing.T) {
	dev := softtest.Open(t)
	const most = 8
	var conns sync.Map // of *rc.Conn
	attach := func(c *rc.Conn) error {
		conn, err := Attach(c, small)
		conns.Store(c, conn)
		return err
	}
	attached := func(c *rc.Conn) *Conn {
		conn, _ := conns.Load(c)
		return conn.(*Conn)
	}
	config := rc.Config{Device: dev, Job: "echoes", Timeout: testkit.Limit, Prepare: attach}
	Configure(&config)
	ofServer := config
	ofServer.Job = ""
	server, err := rc.NewServer(rc.ServerConfig{Config: ofServer, MaxConns: most})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	l, err := rc.Listen(t.Context(), "127.0.0.1:0", rc.ListenConfig{Job: "echoes"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(ctx, l, func(_ context.Context, c *rc.Conn) error {
			conn := attached(c)
			if err := conn.Start(); err != nil {
				return err
			}
			if _, err := io.Copy(conn, conn); err != nil {
				return err
			}
			defer func() { <-conn.ended }()
			return conn.Close()
		})
	}()
	var clients sync.WaitGroup
	for range most {
		clients.Go(func() {
			c, err := rc.Dial(testkit.Context(t), l.Addr().String(), config)
			if err != nil {
				t.Error(err)
				return
			}
			conn := attached(c)
			if err := conn.Start(); err != nil {
				t.Error(err)
				return
			}
			defer func() { <-conn.ended }()
			defer conn.Close()
			conn.SetDeadline(testkit.Deadline())
			for n := range 100 {
				sent := make([]byte, 1+n*37)
				sent[0] = byte(n)
				got := make([]byte, len(sent))
				if _, err := conn.Write(sent); err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadFull(conn, got); err != nil || got[0] != sent[0] {
					t.Errorf("echo %d: %v", n, err)
					return
				}
			}
		})
	}
	clients.Wait()
	stop()
	if err := testkit.Receive(t, served, "end of the server"); err != nil {
		t.Error(err)
	}
}
