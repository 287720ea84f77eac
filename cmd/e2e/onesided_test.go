package e2e

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestOneSidedPeerGone ends the peer after the connection is set up, in the jobs write-read
// and write-imm. A server must report that and keep serving; a client must fail and name the
// lost connection.
func TestOneSidedPeerGone(t *testing.T) {
	noLeak(t)
	for _, job := range []string{"write-read", "write-imm"} {
		t.Run(job+", client", func(t *testing.T) {
			s := serve(t)
			cfg := muteConfig(t, openDevice(t))
			cfg.Job = job
			conn, err := rc.Dial(testkit.Context(t), s.address(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			s.event("client.failed", "error", "the connection; look at its output")
			s.client(t).succeeds() // not stillServes: this process has the device open too
			s.stops()
		})
		t.Run(job+", server", func(t *testing.T) {
			l, gone := listenGone(t, job)
			_, port, _ := net.SplitHostPort(l.Addr().String())
			c := start(t, "rdma_client", "--json", "--job", job, ipv4, device, port)
			c.fails(1, "the connection; look at its output")
			<-gone
		})
	}
}

// listenGone runs a server that announces a region, accepts one client and closes.
func listenGone(t *testing.T, job string) (l *rc.Listener, gone chan struct{}) {
	t.Helper()
	cfg := muteConfig(t, openDevice(t))
	cfg.Job = job
	cfg.Access = verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	cfg.Prepare = func(c *rc.Conn) error {
		mr, err := c.AllocMR("for the client", 4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		if err == nil {
			c.Share("buffer", mr)
			err = c.QP().PostRecv([]verbs.RecvWR{{}})
		}
		return err
	}
	listen, cfg := forServer(cfg)
	l, err := rc.Listen(testkit.Context(t), net.JoinHostPort(ipv4, "0"), listen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	gone = make(chan struct{})
	go func() {
		defer close(gone)
		in, err := l.Accept(testkit.Context(t))
		if err != nil {
			return
		}
		if _, err := in.Hello(testkit.Context(t)); err != nil {
			t.Errorf("hello: %v", err)
			return
		}
		conn, err := in.Connect(testkit.Context(t), cfg)
		if err != nil {
			t.Errorf("connect: %v", err)
			return
		}
		conn.Close()
	}()
	return l, gone
}

// TestDiagramFails draws files that are not records.
func TestDiagramFails(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, "rdma_client", "diagram", "nosuchfile").fails(1, "nosuchfile", "--record")
	start(t, "rdma_client", "diagram", empty).fails(1, empty)
	start(t, "rdma_client", "diagram").fails(2, "arg")
}
