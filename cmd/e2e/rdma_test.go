//go:build rdma

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// Tests of differences between a kernel's device and soft0.

func TestArgumentsIPv6(t *testing.T) {
	softtest.Long(t)
	isGID6 := func(gid string) bool { return gid == ipv6 }
	testArguments(t, map[string]arguments{
		"IPv6":          {[]string{ipv6}, isGID6},
		"IPv6 loopback": {[]string{"::1"}, isGID6},
	})
}

func TestBadInputOfTheDevice(t *testing.T) {
	noLeak(t)
	testBadInput(t, []badInput{
		{"MTU above the active one", "server --mtu 4096", 1, []string{"4096", "active"}},
		{"MTU above the active one", "client --mtu 4096 127.0.0.1", 1, []string{"4096", "active"}},
	})
}

// TestNoCapture checks that --pcap is refused for a kernel's device, whose packets tcpdump
// captures, and that no empty file is left.
func TestNoCapture(t *testing.T) {
	noLeak(t)
	file := filepath.Join(t.TempDir(), "pcap")
	for _, args := range [][]string{{"rdma_server", device}, {"rdma_client", "127.0.0.1", device}} {
		c := start(t, args[0], append(args[1:], "--pcap", file)...)
		c.fails(1, "--pcap", device+" is not a soft device", "try: tcpdump")
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
