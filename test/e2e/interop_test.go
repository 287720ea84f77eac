//go:build rdma && rxe

package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// The software device in the machine's other network namespace, where rdma_rxe
// leaves the UDP port.
const (
	softDevice = "soft:veth1"
	softIPv4   = "10.99.0.2"
	softIPv6   = "fd99::2"
)

var inPeer = []string{"ip", "netns", "exec", "peer"}

// The real binaries, one on the kernel's device and one on the software device,
// each way round.
func TestSoftWithRxe(t *testing.T) {
	noLeak(t)
	sides := map[string]struct {
		serverBy, clientBy         []string
		serverDevice, clientDevice string
		to, clientGID              [2]string // IPv4, IPv6
	}{
		"server on rxe0":       {nil, inPeer, device, softDevice, [2]string{ipv4, ipv6}, [2]string{"::ffff:" + softIPv4, softIPv6}},
		"server on soft:veth1": {inPeer, nil, softDevice, device, [2]string{softIPv4, softIPv6}, [2]string{"::ffff:" + ipv4, ipv6}},
	}
	for name, side := range sides {
		for i := range side.to {
			for _, size := range []int{0, 15, 1025, 100_000} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, side.to[i], size), func(t *testing.T) {
					text := strings.Repeat("x", size)
					s := startBy(t, side.serverBy, "rdma_server", "--json", "--once", "--size", "200000", side.serverDevice, "0")
					_, port, err := net.SplitHostPort(s.event("server.listening").str("address"))
					if err != nil {
						t.Fatal(err)
					}
					c := startBy(t, side.clientBy, "rdma_client", "--json", "--size", "200000", "--text", text, side.to[i], side.clientDevice, port)
					c.succeeds()
					s.succeeds()
					if gid := c.find("gid.chosen").str("gid"); gid != side.clientGID[i] {
						t.Errorf("the client's GID is %s, want %s", gid, side.clientGID[i])
					}
					if got := s.find("message.received").str("text"); got != text {
						t.Errorf("the server received %.100q", got)
					}
					want := fmt.Sprintf("the server received %d bytes: %s", size, text)
					if got := c.find("message.received").str("text"); got != want {
						t.Errorf("reply %.100q, want %.100q", got, want)
					}
				})
			}
		}
	}
}
