//go:build rdma

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// twoHosts is this host, where both ends use one device. The cut sets its network interface down.
func twoHosts(t *testing.T) faultPlace {
	t.Helper()
	name, _ := os.ReadFile("/sys/class/infiniband/" + device + "/ports/1/gid_attrs/ndevs/0")
	netdev := strings.TrimSpace(string(name))
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s; a cut wire needs root", strings.Join(args, " "), err, out)
		}
	}
	p := onePlace()
	p.cut = func() { ip("link", "set", netdev, "down") }
	p.mend = func() {
		ip("link", "set", netdev, "up")
		ip("address", "replace", ipv6+"/64", "dev", netdev, "nodad") // the kernel removed it when the interface went down
		awaitAddresses(t)
	}
	return p
}
