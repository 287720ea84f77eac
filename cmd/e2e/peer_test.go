package e2e

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// dialRaw connects to a server over TCP and sends nothing.
func dialRaw(t *testing.T, s *server) *net.TCPConn {
	t.Helper()
	var dialer net.Dialer
	nc, err := dialer.DialContext(testkit.Context(t), "tcp", s.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc.(*net.TCPConn)
}

func hello() oob.Hello {
	return oob.Hello{Role: oob.RoleClient, Job: "send", Program: "e2e", Params: map[string]string{"size": "4096", "max_size": "4096"}}
}

// endpoint returns an endpoint of a queue pair that does not exist.
func endpoint() oob.Endpoint {
	return oob.Endpoint{
		QPType: oob.QPTypeRC, QPN: 0xfffff0, PSN: 1, GID: netip.MustParseAddr(ipv4).As16(), MTU: 256,
		InitiatorDepth: 1, ResponderResources: 1,
	}
}

// fakeSteps are the steps of a client over TCP, in order.
var fakeSteps = []struct {
	name string
	do   func(context.Context, *oob.Conn) error
}{
	{"hello", func(ctx context.Context, c *oob.Conn) error { _, err := c.Hello(ctx, hello()); return err }},
	{"endpoints", func(ctx context.Context, c *oob.Conn) error {
		_, err := c.ExchangeEndpoint(ctx, endpoint())
		return err
	}},
	{"regions", func(ctx context.Context, c *oob.Conn) error { _, err := c.ExchangeRegions(ctx, nil); return err }},
	{"barrier receives posted", func(ctx context.Context, c *oob.Conn) error { return c.Barrier(ctx, "receives posted") }},
	{"barrier in RTS", func(ctx context.Context, c *oob.Conn) error { return c.Barrier(ctx, "in RTS") }},
}

// fakeClient runs the first steps of a client over TCP only.
func fakeClient(t *testing.T, nc net.Conn, steps int) *oob.Conn {
	t.Helper()
	c := oob.NewConn(nc, oob.Options{Timeout: testkit.Limit})
	t.Cleanup(func() { c.Close() })
	for _, step := range fakeSteps[:steps] {
		if err := step.do(testkit.Context(t), c); err != nil {
			t.Fatalf("fake client: %s: %v", step.name, err)
		}
	}
	return c
}

// muteConfig returns the configuration of an end in this process that connects, receives
// messages and never sends one.
func muteConfig(t *testing.T, dev *verbs.Device) rc.Config {
	return rc.Config{
		Device: dev, Job: "send", Program: "e2e", Params: map[string]string{"size": "4096", "max_size": "4096"}, Timeout: testkit.Limit,
		Prepare: func(c *rc.Conn) error {
			mr, err := c.AllocMR("to receive", 4096, verbs.AccessLocalWrite)
			if err != nil {
				return err
			}
			return c.QP().PostRecv([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{mr.SGE(0, 4096)}}})
		},
	}
}

// forServer splits what a client would dial with into what a server listens with and what
// it connects a client with.
func forServer(cfg rc.Config) (rc.ListenConfig, rc.Config) {
	l := rc.ListenConfig{Job: cfg.Job, Program: cfg.Program, Params: cfg.Params, Timeout: cfg.Timeout}
	cfg.Job, cfg.Program, cfg.Params = "", "", nil
	return l, cfg
}

func openDevice(t *testing.T) *verbs.Device {
	t.Helper()
	dev, err := verbs.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// muteClient returns a client in this process; the server waits for its message.
func muteClient(t *testing.T, s *server) *rc.Conn {
	t.Helper()
	conn, err := rc.Dial(testkit.Context(t), s.address(), muteConfig(t, openDevice(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// muteServer is a server that accepts one client and never replies.
type muteServer struct {
	dev  *verbs.Device
	port string
	conn chan *rc.Conn // gets the connection, or is closed after an error
}

func listenMute(t *testing.T) *muteServer {
	t.Helper()
	dev := openDevice(t)
	return listenAs(t, dev, muteConfig(t, dev))
}

// listenAs is listenMute with another job.
func listenAs(t *testing.T, dev *verbs.Device, cfg rc.Config) *muteServer {
	t.Helper()
	listen, cfg := forServer(cfg)
	l, err := rc.Listen(testkit.Context(t), net.JoinHostPort(ipv4, "0"), listen)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	m := &muteServer{dev: dev, port: port, conn: make(chan *rc.Conn, 1)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer close(m.conn)
		in, err := l.Accept(testkit.Context(t))
		if err != nil {
			return
		}
		if _, err := in.Hello(testkit.Context(t)); err != nil {
			in.Refuse(err)
			return
		}
		conn, err := in.Connect(testkit.Context(t), cfg)
		if err == nil {
			m.conn <- conn
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-over
		if conn := <-m.conn; conn != nil {
			conn.Close()
		}
	})
	return m
}

// client starts a client, which sends its text and then waits for the reply.
func (m *muteServer) client(t *testing.T, flags ...string) *process {
	t.Helper()
	c := start(t, "rdma_client", append(flags, "--json", ipv4, device, m.port)...)
	c.event("wr.completed", "opcode", "IBV_WC_SEND")
	return c
}
