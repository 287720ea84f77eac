//go:build rdma && rxe

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// netdev is the network interface of the device.
var netdev = func() string {
	name, _ := os.ReadFile("/sys/class/infiniband/" + device + "/ports/1/gid_attrs/ndevs/0")
	return strings.TrimSpace(string(name))
}()

// run runs a program of the system.
func run(t *testing.T, args ...string) {
	t.Helper()
	var out []byte
	done := make(chan error, 1)
	go func() {
		var err error
		out, err = exec.Command(args[0], args[1:]...).CombinedOutput()
		done <- err
	}()
	if err := testkit.Receive(t, done, fmt.Sprintf("end of %q, which may be stuck in the kernel", args)); err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
}

// removable creates the device again after all programs of the test have ended. A test that
// removes the device calls removable first.
func removable(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		testkit.Until(t, "new "+device, func() bool {
			return exec.Command("rdma", "link", "add", device, "type", "rxe", "netdev", netdev).Run() == nil
		})
		awaitAddresses(t)
		expectResources(t, baseline)
	})
}

func removeDevice(t *testing.T) {
	t.Helper()
	run(t, "rdma", "link", "del", device)
}

const gone = "reported IBV_EVENT_DEVICE_FATAL"

// TestDeviceRemoved removes the device while a program uses it. The program must report that
// and end. rxe waits until all programs have closed the device, so a program that does not
// would block the removal.
func TestDeviceRemoved(t *testing.T) {
	t.Run("idle server", func(t *testing.T) {
		removable(t)
		s := serve(t)
		removeDevice(t)
		s.fails(1, gone, "rdma link")
	})
	t.Run("client waiting for the reply", func(t *testing.T) {
		removable(t)
		m := listenMute(t)
		m.closeOnRemoval(t)
		c := m.client(t)
		removeDevice(t)
		c.fails(1) // either end may close first, so the error names the event or the peer
	})
	t.Run("client waiting for the hello", func(t *testing.T) {
		removable(t)
		c := stuckClient(t, 0)
		removeDevice(t)
		c.fails(1, gone)
	})
	t.Run("client waiting for the barrier", func(t *testing.T) {
		removable(t)
		c := stuckClient(t, len(fakeSteps)-1)
		c.event("qp.transition", "to", "RTS")
		removeDevice(t)
		c.fails(1, gone)
	})
	t.Run("server in a job", func(t *testing.T) {
		removable(t)
		s := serve(t)
		fakeClient(t, dialRaw(t, s), len(fakeSteps))
		removeDevice(t)
		s.fails(1, gone, "rdma link")
	})
}

// closeOnRemoval closes this end when the removal of the device begins.
func (m *muteServer) closeOnRemoval(t *testing.T) {
	t.Helper()
	cancel := m.dev.Subscribe(func(e verbs.AsyncEvent) {
		if e.Type == verbs.EventDeviceFatal {
			go func() {
				if conn := <-m.conn; conn != nil {
					conn.Close()
				}
				m.dev.Close()
			}()
		}
	})
	t.Cleanup(cancel)
}

// stuckClient starts a client whose server does only the first steps, then neither sends nor
// closes.
func stuckClient(t *testing.T, steps int) *process {
	t.Helper()
	l, err := oob.Listen(testkit.Context(t), "127.0.0.1:0", oob.Options{Timeout: testkit.Limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, _ := strings.Cut(l.Addr().String(), ":")
	c := start(t, "rdma_client", "--json", "--timeout", "60s", "127.0.0.1", device, port)
	conn, err := l.Accept(testkit.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	for _, step := range fakeSteps[:steps] {
		if step.name == "hello" {
			h := hello()
			h.Role = oob.RoleServer
			_, err = conn.Hello(testkit.Context(t), h)
		} else {
			err = step.do(testkit.Context(t), conn)
		}
		if err != nil {
			t.Fatalf("fake server: %s: %v", step.name, err)
		}
	}
	return c
}

// TestNoDevice checks that soft0 is the default without the device, but never replaces a named
// device. soft0 can bind the UDP port only after rdma_rxe is unloaded.
func TestNoDevice(t *testing.T) {
	removable(t)
	removeDevice(t)
	for _, args := range [][]string{{"rdma_server"}, {"rdma_client", "127.0.0.1"}} {
		start(t, args[0], args[1:]...).fails(1, "soft0", "address already in use", "try:", "modprobe -r rdma_rxe")
	}
	run(t, "modprobe", "-r", "rdma_rxe")
	for _, args := range [][]string{{"rdma_server", device}, {"rdma_client", "127.0.0.1", device}} {
		start(t, args[0], args[1:]...).fails(1, device, "no device of that name", "try: one of those that exist: soft0")
	}
	s := start(t, "rdma_server", "--json", "--once")
	s.event("device.opened", "msg", "soft0", "why", "no RDMA device; using soft0")
	s.event("server.listening")
	start(t, "rdma_client", "127.0.0.1").succeeds()
	s.succeeds()
}

// TestPortDown sets the network interface down, and therefore the port.
func TestPortDown(t *testing.T) {
	noLeak(t)
	run(t, "ip", "link", "set", netdev, "down")
	t.Cleanup(func() {
		run(t, "ip", "link", "set", netdev, "up")
		run(t, "ip", "address", "replace", ipv6+"/64", "dev", netdev, "nodad") // the kernel removed it when the interface went down
		awaitAddresses(t)
	})
	for _, args := range [][]string{{"rdma_server"}, {"rdma_client", "127.0.0.1"}} {
		start(t, args[0], args[1:]...).fails(1, "port 1 of "+device+" is", "ip link set")
	}
}

// TestPortBounces sets the port down and up again while a server runs. The server must keep
// serving.
func TestPortBounces(t *testing.T) {
	noLeak(t)
	s := serve(t)
	run(t, "ip", "link", "set", netdev, "down")
	run(t, "ip", "link", "set", netdev, "up")
	run(t, "ip", "address", "replace", ipv6+"/64", "dev", netdev, "nodad")
	awaitAddresses(t)
	s.stillServes(t)
	s.stops()
}
