//go:build !rdma && linux && netns

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestNetnsPortDown takes the interface of a server's device down, and its address away, in a network of its own. The health check
// and a metric follow, and the log has a warning for each change. They also follow the address of --listen.
func TestNetnsPortDown(t *testing.T) {
	if !testkit.OwnNetwork(t, "RAWVERBS_BIN="+binaries) {
		return
	}
	ip := func(args string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, out)
		}
	}
	for _, args := range []string{"link set lo up", "link add wire type veth peer name far", "addr add 10.78.0.1/24 dev wire", "link set far up", "link set wire up"} {
		ip(args)
	}
	testkit.Until(t, "interface that is up", func() bool {
		out, err := exec.CommandContext(t.Context(), "ip", "-o", "link", "show", "wire").Output()
		return err == nil && strings.Contains(string(out), "state UP")
	})
	var s *process
	var at, name string
	serves := func(device string, flags ...string) {
		t.Helper()
		s, name = start(t, "rdma_server", append(flags, "--json", "--metrics", "127.0.0.1:0", device, "0")...), device
		at = "http://" + s.event("metrics.served").str("address")
		s.event("server.listening")
	}
	serves("soft:wire")
	check := func(what string, status int, text string, up float64) {
		t.Helper()
		var got int
		var body string
		testkit.Until(t, "the right health, "+what, func() bool { // at first it is starting
			got, body = get(t, at+"/healthz")
			return got == status && strings.HasPrefix(body, text)
		}, func() string { return fmt.Sprint(got, " ", body) })
		_, metrics := get(t, at+"/metrics")
		if got := valueOf(t, metrics, `rawverbs_port_up{device="`+name+`"}`); got != up {
			t.Errorf("%s: rawverbs_port_up is %v, want %v", what, got, up)
		}
	}
	check("at first", http.StatusOK, "serving\n", 1)
	ip("link set wire down")
	s.event("async.event", "level", "WARN", "so", "no client can connect: port 1 of soft:wire is IBV_PORT_DOWN")
	check("the interface is down", http.StatusServiceUnavailable, "serving, but no client can connect: port 1 of soft:wire is IBV_PORT_DOWN; try: ", 0)
	ip("link set wire up")
	s.event("async.event", "level", "WARN", "so", "clients can connect again")
	check("the interface is up", http.StatusOK, "serving\n", 1)
	ip("addr del 10.78.0.1/24 dev wire")
	s.event("async.event", "level", "WARN", "so", "no client can connect: soft:wire: port 1 has no RoCE v2 GID")
	check("the address is gone", http.StatusServiceUnavailable, "serving, but no client can connect: soft:wire: port 1 has no RoCE v2 GID", 0)
	ip("addr add 10.78.0.1/24 dev wire")
	testkit.Until(t, "the second return", func() bool {
		returns := 0
		for _, r := range s.recorded() {
			if r.str("so") == "clients can connect again" {
				returns++
			}
		}
		return returns == 2
	})
	check("the address is back", http.StatusOK, "serving\n", 1)
	s.signal(os.Interrupt)
	s.succeeds()

	ip("addr add 10.79.0.1/24 dev wire")
	serves("soft:10.79.0.1", "--listen", "10.78.0.1")
	check("two addresses", http.StatusOK, "serving\n", 1)
	ip("addr del 10.78.0.1/24 dev wire")
	check("only the device's address is there", http.StatusServiceUnavailable, "serving, but no client can connect: no interface has the address 10.78.0.1 of --listen; try: ip address", 0)
	s.event("server.reachable", "level", "WARN", "msg", "no client can connect: no interface has the address 10.78.0.1 of --listen")
	ip("addr add 10.78.0.1/24 dev wire")
	s.event("server.reachable", "level", "WARN", "msg", "clients can connect again")
	check("two addresses again", http.StatusOK, "serving\n", 1)
	s.signal(os.Interrupt)
	s.succeeds()
}
