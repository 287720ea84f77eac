package e2e

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// TestClientStopped stops a client at different steps. After a signal it must report the
// signal, free its objects and end at once. The kernel frees the objects of a killed client.
func TestClientStopped(t *testing.T) {
	noLeak(t)
	moments := map[string]func(*testing.T) *process{
		"waiting for the hello": func(t *testing.T) *process {
			address := listenRaw(t, func(c net.Conn) { io.Copy(io.Discard, c) })
			_, port, _ := net.SplitHostPort(address)
			c := start(t, "rdma_client", "--json", never, "127.0.0.1", device, port)
			c.event("oob.message", "msg", "sent hello")
			return c
		},
		"waiting for the reply": func(t *testing.T) *process { return listenMute(t).client(t, never) },
	}
	for name, begin := range moments {
		for signal, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 130, syscall.SIGKILL: -1} {
			t.Run(name+"/"+signal.String(), func(t *testing.T) {
				c := begin(t)
				c.signal(signal)
				if status < 0 {
					c.wait()
					return
				}
				c.fails(status, "stopped by "+unix.SignalName(signal))
			})
		}
	}
}

// TestClientTimeout checks that --timeout ends a job without progress.
func TestClientTimeout(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	runsOut(t, func() *process {
		return start(t, "rdma_client", "--timeout", "2s", "--json", ipv4, device, listenMute(t).port)
	}, "made no progress for 2s", "--timeout")
}

// TestClientKilled kills a client with kill -9 during its job. The server must notice and serve
// the next client.
func TestClientKilled(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t)
	for _, at := range [][]string{
		{"oob.message", "msg", "sent hello"},
		{"qp.transition", "to", "INIT"},
		{"qp.transition", "to", "RTR"},
		{"qp.transition", "to", "RTS"},
		{"message.sent"},
	} {
		c := s.client(t)
		c.event(at[0], at[1:]...)
		// The client may have got further, even to its end.
		if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		c.wait()
		s.held.expect(t, s)
	}
	s.stillServes(t)
	s.stops()
}

func TestServerStopped(t *testing.T) {
	noLeak(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run("idle/"+signal.String(), func(t *testing.T) {
			s := serve(t)
			s.signal(signal)
			s.succeeds()
		})
		t.Run("in a job/"+signal.String(), func(t *testing.T) {
			s := serve(t, never)
			conn := muteClient(t, s)
			s.signal(signal)
			s.fails(130, "stopped by "+unix.SignalName(signal))
			// The client gets the reason.
			if _, err := conn.WaitRecv(testkit.Context(t)); err == nil {
				t.Error("the client got a message")
			}
		})
	}
	t.Run("once/waiting", func(t *testing.T) {
		s := serve(t, "--once")
		s.signal(syscall.SIGINT)
		s.fails(130, "stopped by SIGINT")
	})
	t.Run("killed in a job", func(t *testing.T) {
		s := serve(t)
		muteClient(t, s)
		s.signal(os.Kill)
		s.wait()
	})
}

// TestServerDies kills the server while a client waits for its reply.
func TestServerDies(t *testing.T) {
	noLeak(t)
	m := listenMute(t)
	c := m.client(t, never)
	conn := testkit.Receive(t, m.conn, "the client's connection")
	conn.Close()
	c.fails(1, "closed the connection", "look at its output")
}

// TestTwoSignals checks that the second signal ends a program that hangs. The program is
// suspended first, so that both signals are pending.
func TestTwoSignals(t *testing.T) {
	noLeak(t)
	c := listenMute(t).client(t, never)
	c.signal(syscall.SIGSTOP)
	c.signal(syscall.SIGINT)
	c.signal(syscall.SIGTERM)
	c.signal(syscall.SIGCONT)
	if status := c.wait(); status == 0 {
		t.Error("status 0")
	}
}
