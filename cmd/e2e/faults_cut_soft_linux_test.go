//go:build !rdma

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// twoHosts makes two network namespaces with a wire between them, which cut takes away. That needs root.
func twoHosts(t *testing.T) faultPlace {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("a cut wire needs root, for network namespaces; try: sudo make faults, or RUN='^(kill|stop)'")
	}
	name := fmt.Sprintf("rv%d-%d", os.Getpid(), places.Add(1))
	spaces := map[string]string{theServer: name + "s", theClient: name + "c"}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	addresses := map[string]string{theServer: "10.77.0.1", theClient: "10.77.0.2"}
	for _, space := range spaces {
		ip("netns", "add", space)
		t.Cleanup(func() { exec.Command("ip", "netns", "del", space).Run() })
	}
	ip("-n", spaces[theServer], "link", "add", "wire0", "type", "veth", "peer", "name", "wire0", "netns", spaces[theClient])
	p := faultPlace{address: addresses[theServer], by: map[string][]string{}, device: map[string]string{}, relayAt: addresses[theClient]}
	for end, space := range spaces {
		ip("-n", space, "addr", "add", addresses[end]+"/24", "dev", "wire0")
		ip("-n", space, "link", "set", "lo", "up")
		ip("-n", space, "link", "set", "wire0", "up")
		p.by[end] = []string{"ip", "netns", "exec", space}
		p.device[end] = "soft:" + addresses[end]
	}
	// The kernel says that a link is up up to a second later, if many links change. Until then the port is down.
	up := func() {
		for _, space := range spaces {
			testkit.Until(t, "wire that is up", func() bool {
				out, err := exec.Command("ip", "-n", space, "-brief", "link", "show", "wire0", "up").Output()
				return err == nil && strings.Contains(string(out), " UP ")
			})
		}
	}
	up()
	p.in = func(end string, do func()) { inNamespace(t, "/run/netns/"+spaces[end], do) }
	p.cut = func() { ip("-n", spaces[theServer], "link", "set", "wire0", "down") }
	p.mend = func() { ip("-n", spaces[theServer], "link", "set", "wire0", "up"); up() }
	return p
}

var places atomic.Int32

// inNamespace runs do on a thread in a network namespace. Sockets that do makes stay there.
func inNamespace(t *testing.T, path string, do func()) {
	file, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer file.Close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		do()
	}()
	<-over
}
