//go:build rdma && rxe

package e2e

import (
	"fmt"
	"net"
	"slices"
	"testing"
)

// The software device in the machine's second network namespace, where rdma_rxe does not use
// the UDP port.
const (
	softDevice = "soft:veth1"
	softIPv4   = "10.99.0.2"
	softIPv6   = "fd99::2"
)

var inPeer = []string{"ip", "netns", "exec", "peer"}

// sides are the two directions: which end uses which device.
var sides = []struct {
	name                       string
	serverBy, clientBy         []string
	serverDevice, clientDevice string
	to, clientGID              [2]string // IPv4, IPv6
}{
	{"server on rxe0", nil, inPeer, device, softDevice, [2]string{"10.99.0.1", "fd99::1"}, [2]string{"::ffff:" + softIPv4, softIPv6}},
	{"server on soft:veth1", inPeer, nil, softDevice, device, [2]string{softIPv4, softIPv6}, [2]string{"::ffff:10.99.0.1", "fd99::1"}},
}

// runs reports whether number i of a list runs in a direction: 0 or 1. With -short every second one runs in
// the one direction and the others in the other.
func runs(i, direction int) bool { return !testing.Short() || (i+direction)%2 == 0 }

// TestSoftWithRxe runs every job with one program on the kernel's device and the other on the
// software device. See runs.
func TestSoftWithRxe(t *testing.T) {
	noLeak(t)
	for direction, side := range sides {
		for i := range side.to {
			all := slices.Concat(exercises(t), formatExercises())
			if i == 1 {
				all = sendExercises() // one job is enough for another address family
			}
			for number, e := range all {
				if !runs(number, direction) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", side.name, side.to[i], e.name), func(t *testing.T) {
					s := startBy(t, side.serverBy, "rdma_server", slices.Concat(e.server, []string{"--json", "--once", side.serverDevice, "0"})...)
					_, port, err := net.SplitHostPort(s.event("server.listening").str("address"))
					if err != nil {
						t.Fatal(err)
					}
					c := startBy(t, side.clientBy, "rdma_client", slices.Concat(e.client, []string{"--json", side.to[i], side.clientDevice, port})...)
					c.succeeds()
					s.succeeds()
					if gid := c.find("gid.chosen").str("gid"); gid != side.clientGID[i] {
						t.Errorf("the client's GID is %s, want %s", gid, side.clientGID[i])
					}
					e.check(t, c, s)
				})
			}
		}
	}
}
