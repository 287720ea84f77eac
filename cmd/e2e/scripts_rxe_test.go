//go:build rdma && rxe

package e2e

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// dummy creates a network interface with these addresses for the test.
func dummy(t *testing.T, name string, addresses ...string) {
	t.Helper()
	run(t, "ip", "link", "add", name, "type", "dummy")
	t.Cleanup(func() { run(t, "ip", "link", "del", name) })
	for _, a := range addresses {
		run(t, "ip", "address", "add", a, "dev", name)
	}
	if len(addresses) > 0 {
		run(t, "ip", "link", "set", name, "up")
	}
}

// TestSetupRxe creates a second device, runs setup_rxe.sh again, runs both programs on the
// device, and removes it when no program uses it.
func TestSetupRxe(t *testing.T) {
	noLeak(t)
	const name, netdev2, address = "rxe-second", "dummy7", "10.98.7.1"
	dummy(t, netdev2, address+"/24")
	use := []string{"index 0: RoCE v2 fe80:", "index 1: RoCE v2 ::ffff:" + address, "use index 1: "}

	runScript(t, nil, "setup_rxe.sh", "--name", name, netdev2).ends(0, append(use, "created "+name+" on "+netdev2)...)
	t.Cleanup(func() { exec.Command("rdma", "link", "del", name).Run() }) // if the test fails
	runScript(t, nil, "setup_rxe.sh", "--name", name, netdev2).ends(0, append(use, name+" already exists, on "+netdev2)...)

	runScript(t, nil, "setup_rxe.sh", "--name", "rxe-third", netdev2).ends(1, netdev2+" has the rxe device "+name)
	runScript(t, nil, "setup_rxe.sh", "--name", name, netdev).ends(1, name+" already exists, on "+netdev2, "try: --name rxe1")
	runScript(t, nil, "setup_rxe.sh", "nosuch0").ends(1, "no network interface nosuch0", netdev2, "ip netns exec")
	runScript(t, nil, "setup_rxe.sh").ends(1, "no default route, so the interface is unknown; try: ")

	s := start(t, "rdma_server", "--json", name, "0")
	_, port, err := net.SplitHostPort(s.event("server.listening").str("address"))
	if err != nil {
		t.Fatal(err)
	}
	start(t, "rdma_client", "--json", address, name, port).succeeds()
	runScript(t, nil, "setup_rxe.sh", "--remove", "--name", name).ends(1, name+" is in use (pid ", "rdma_server")
	s.signal(os.Interrupt)
	s.succeeds()
	runScript(t, nil, "setup_rxe.sh", "--remove", "--name", name).ends(0, "removed "+name+" from "+netdev2)
	if _, err := os.Stat("/sys/class/infiniband/" + name); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", name, err)
	}
	runScript(t, nil, "setup_rxe.sh", "--remove", "--name", name).ends(0, "nothing to remove")
}

// TestSetupRxeOnBareInterface checks the warning for an interface that is not ready.
func TestSetupRxeOnBareInterface(t *testing.T) {
	noLeak(t)
	dummy(t, "dummy8")
	runScript(t, nil, "setup_rxe.sh", "--name", "rxe-bare", "dummy8").ends(0, "dummy8 is down", "has no IPv4 address", "try: ip address add")
	runScript(t, nil, "setup_rxe.sh", "--remove", "--name", "rxe-bare").ends(0)
}

// TestSetupRxeWithoutModule checks the errors if the module or a program is missing, or the
// port is taken.
func TestSetupRxeWithoutModule(t *testing.T) {
	noLeak(t)
	t.Cleanup(func() {
		runScript(t, nil, "setup_rxe.sh", "--name", device, netdev).ends(0, "use index 1")
		awaitAddresses(t)
	})
	runScript(t, nil, "setup_rxe.sh", "--remove", "--name", device).ends(0, "removed "+device)
	run(t, "modprobe", "-r", "rdma_rxe")

	runScript(t, []string{"PATH=/nosuch"}, "setup_rxe.sh", netdev).ends(1, "needs the program rdma; try: apt-get install iproute2")

	s := start(t, "rdma_server", "--json", "soft0", "0")
	s.event("server.listening")
	// A missing module is the reason even if the port is taken.
	runScript(t, []string{"MODPROBE_OPTIONS=-d " + t.TempDir()}, "setup_rxe.sh", netdev).ends(1, "has no module rdma_rxe; try: ")
	runScript(t, nil, "setup_rxe.sh", netdev).ends(1, "UDP port 4791 is taken", "rdma_server", "try: ")
	s.signal(os.Interrupt)
	s.succeeds()
}

// TestCaptureScript checks that capture.sh captures packets between rxe0 and another device,
// and warns that packets of rxe0 to itself are not captured.
func TestCaptureScript(t *testing.T) {
	noLeak(t)
	for name, c := range map[string]struct {
		clientBy     []string
		clientDevice string
		passes       bool
	}{
		"to soft:veth1": {inPeer, softDevice, true},
		"to itself":     {nil, device, false}, // TCP uses lo
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, "rdma_server", "--once", "--json", device, "0")
			_, port, err := net.SplitHostPort(s.event("server.listening").str("address"))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "x.pcap")
			capture := newScript(t, nil, "capture.sh", "-w", file, "-p", port, "-t", "60").start()
			// When the file has its header, tcpdump is capturing.
			testkit.Until(t, "begin of the capture", func() bool { info, err := os.Stat(file); return err == nil && info.Size() >= 24 })
			startBy(t, c.clientBy, "rdma_client", "--json", ipv4, c.clientDevice, port).succeeds()
			s.succeeds()
			capture.cmd.Process.Signal(os.Interrupt)
			capture.ends(0, "capturing on "+netdev, "udp port 4791 or tcp port "+port, "packets that "+device+" sends to itself do not pass "+netdev)
			captured, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if exchange := bytes.Contains(captured, []byte("RVO\n")); exchange != c.passes {
				t.Errorf("the exchange was captured: %v, want %v", exchange, c.passes)
			}
			seen := map[byte]bool{}
			for _, f := range readCapture(t, file) {
				seen[f.opcode()] = true
			}
			if seen[sendOnly] != c.passes || seen[ack] != c.passes {
				t.Errorf("opcodes captured: %v, want SEND and acknowledgements: %v", seen, c.passes)
			}
		})
	}
}
