package kit

import (
	"log/slog"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// connected returns two ends. The server shares a region of 8 bytes and has posted two receives.
func connected(t *testing.T) (client, server *rc.Conn) {
	t.Helper()
	dev := softtest.Open(t)
	l, err := rc.Listen(testkit.Context(t), "127.0.0.1:0", rc.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed := make(chan error, 1)
	go func() {
		var err error
		client, err = rc.Dial(testkit.Context(t), l.Addr().String(), rc.Config{Device: dev, Timeout: testkit.Limit})
		dialed <- err
	}()
	in, err := l.Accept(testkit.Context(t))
	if err == nil {
		_, err = in.Hello(testkit.Context(t))
	}
	if err == nil {
		server, err = in.Connect(testkit.Context(t), rc.Config{Device: dev, Timeout: testkit.Limit, Access: verbs.AccessRemoteRead,
			Prepare: func(c *rc.Conn) error {
				mr, err := c.AllocMR("shared", 8, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
				if err != nil {
					return err
				}
				c.Share("shared", mr)
				return c.QP().PostRecv(make([]verbs.RecvWR, 2))
			}})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	if err := testkit.Receive(t, dialed, "end of Dial"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, server
}

// TestPacketsAreProgress checks that each request of the peer counts as progress, although it completes nothing
// at this end.
func TestPacketsAreProgress(t *testing.T) {
	client, server := connected(t)
	arrived := arrivals(server.QPs())
	mr, err := client.AllocMR("to read into", 8, verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	shared, _ := client.PeerRegion("shared")
	for i := range 3 {
		if arrived() {
			t.Errorf("before READ %d: progress", i)
		}
		if err := client.Read(testkit.Context(t), mr.Slice(0, 8), shared, 0); err != nil {
			t.Fatal(err)
		}
		if !arrived() {
			t.Errorf("after READ %d: no progress", i)
		}
	}
}

// TestCompletionsAreProgress checks that each completion that a Tracer returns counts as progress, such as
// each chunk of the job file.
func TestCompletionsAreProgress(t *testing.T) {
	client, server := connected(t)
	tracer := Tracer{slog.New(slog.DiscardHandler)}
	for i := range 2 {
		m := NewMotion()
		if err := client.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}}); err != nil {
			t.Fatal(err)
		}
		if _, moved := m.Idle(); moved {
			t.Errorf("before completion %d: progress", i)
		}
		ctx := WithMotion(testkit.Context(t), m)
		if _, err := tracer.WaitRecv(ctx, server, "a SEND"); err != nil {
			t.Fatal(err)
		}
		if _, moved := m.Idle(); !moved {
			t.Errorf("after completion %d: no progress", i)
		}
		if _, err := client.WaitSend(testkit.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
}
