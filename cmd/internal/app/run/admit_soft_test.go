//go:build !rdma

package run

import (
	"context"
	"runtime"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// sized is an Endpoint of a certain size.
type sized struct {
	kit.Endpoint
	bytes int64
}

func (s sized) Memory() int64 { return s.bytes }

// TestMemoryOfConnections compares what a connection is counted for with what it takes of the heap,
// in which a soft device has its queues.
func TestMemoryOfConnections(t *testing.T) {
	dev := softtest.Open(t)
	for name, cfg := range map[string]rc.Config{
		"default": {},
		"bulk":    {QPs: 64, Cap: verbs.QPCap{MaxSendWR: 1015, MaxRecvWR: 1015}},
		"deep":    {Cap: verbs.QPCap{MaxSendWR: 16000, MaxRecvWR: 16000}},
		"inline":  {QPs: 8, Cap: verbs.QPCap{MaxSendWR: 500, MaxInlineData: 512, MaxSendSGE: 8, MaxRecvSGE: 8}, MaxReads: 128},
		"one CQ":  {OneCQ: true, SRQ: &verbs.SRQInit{MaxWR: 4096, MaxSGE: 2}, QPs: 4},
	} {
		t.Run(name, func(t *testing.T) {
			const window = 1 << 20
			cfg.Device = dev
			cfg.Prepare = func(c *rc.Conn) error {
				_, err := c.AllocMR("window", window, verbs.AccessLocalWrite)
				return err
			}
			before := testkit.Heap()
			client, server := connected(t, cfg)
			took := (testkit.Heap() - before) / 2 // both ends are here
			counted := memoryOf(&cfg, sized{bytes: window}, 0, false)
			t.Logf("%d bytes, counted as %d", took, counted)
			if took > counted || counted > 4*took+eachClient {
				t.Errorf("a connection takes %d bytes and counts as %d", took, counted)
			}
			runtime.KeepAlive(client)
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// connected connects two ends with the same Config.
func connected(t *testing.T, cfg rc.Config) (client, server *rc.Conn) {
	t.Helper()
	l, err := rc.Listen(t.Context(), "127.0.0.1:0", rc.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed := make(chan error, 1)
	go func() {
		var err error
		client, err = rc.Dial(context.Background(), l.Addr().String(), cfg)
		dialed <- err
	}()
	in, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	if server, err = in.Connect(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, dialed, "end of Dial"); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// closing is an Endpoint whose connection fails in Prepare, if fails is set, or in Run.
type closing struct {
	sized
	fails bool
	close func()
}

func (c closing) Configure(*rc.Config) {}

func (c closing) Prepare(*rc.Conn) error {
	if c.fails {
		return errors.New("in Prepare")
	}
	return nil
}

func (c closing) Run(context.Context, *rc.Conn) error { return errors.New("in Run") }

func (c closing) Close() error {
	c.close()
	return nil
}

// TestMemoryCountsUntilAllIsFreed looks at the budget when a client's Endpoint is freed, after its connection.
func TestMemoryCountsUntilAllIsFreed(t *testing.T) {
	for name, fails := range map[string]bool{"connecting fails": true, "the job fails": false} {
		t.Run(name, func(t *testing.T) {
			var s *server
			freed := make(chan admission.Usage, 1)
			s = oneJob(t, kit.SideFunc(func(kit.Session) (kit.Endpoint, error) {
				return closing{sized{bytes: 5 << 20}, fails, func() { freed <- s.admission.Usage() }}, nil
			}))
			l, err := rc.Listen(t.Context(), "127.0.0.1:0", rc.ListenConfig{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- s.serveAll(ctx, l) }()
			if conn, err := rc.Dial(t.Context(), l.Addr().String(), rc.Config{Device: s.dev, Job: "send"}); err == nil {
				<-conn.Context().Done()
				conn.Close()
			}
			if used := testkit.Receive(t, freed, "end of the client"); used.Clients != 1 || used.Memory < 5<<20 {
				t.Errorf("when the Endpoint was freed: %+v", used)
			}
			testkit.Until(t, "end of the client's place", func() bool { return s.admission.Usage() == admission.Usage{} })
			stop()
			if err := testkit.Receive(t, served, "end of the server"); err != nil {
				t.Error(err)
			}
		})
	}
}
