//go:build linux && netns

package softroce_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/host/hosttest"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestNetnsPortEvents: a device reports when its interface and its addresses go and come back. No query is needed.
func TestNetnsPortEvents(t *testing.T) {
	if !hosttest.OwnNetwork(t) {
		return
	}
	v4, v6 := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fd09::1")
	wire := hosttest.NewTun(t, "wire", v4, v6)
	dev := openSoft(t, "soft:wire")
	events := make(chan verbs.AsyncEvent, 100)
	defer dev.Subscribe(func(e verbs.AsyncEvent) { events <- e })()
	want := func(what string, types ...verbs.EventType) {
		t.Helper()
		for len(types) > 0 { // in any order, as the system reports what has changed
			e := testkit.Receive(t, events, what+": event", func() string { return fmt.Sprint("missing: ", types) })
			if e.Port != 1 {
				t.Errorf("%s: %v, want an event of port 1", what, e)
			}
			types = slices.DeleteFunc(types, func(want verbs.EventType) bool { return want == e.Type })
		}
	}
	state := func(what string, state verbs.PortState, physical uint8, addresses ...netip.Addr) {
		t.Helper()
		port, err := dev.QueryPort(1)
		if err != nil || port.State != state || port.PhysState != physical {
			t.Errorf("%s: the port is %v, %d, %v; want %v, %d", what, port.State, port.PhysState, err, state, physical)
		}
		table, err := dev.QueryGIDTable()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []netip.Addr{v4, v6} {
			has := slices.ContainsFunc(table, func(e verbs.GIDEntry) bool { return e.GID.Addr() == a })
			if has != slices.Contains(addresses, a) {
				t.Errorf("%s: GID of %v: %v in %+v", what, a, has, table)
			}
		}
	}
	state("opened", verbs.PortActive, 5, v4, v6)

	hosttest.GiveIPv4(t, "wire", netip.IPv4Unspecified())
	want("the address goes", verbs.EventGIDChange)
	state("the address goes", verbs.PortActive, 5, v6)
	hosttest.GiveIPv4(t, "wire", v4)
	want("the address comes back", verbs.EventGIDChange)
	state("the address comes back", verbs.PortActive, 5, v4, v6)

	hosttest.SetLink(t, "wire", false)
	want("the interface goes down", verbs.EventPortErr, verbs.EventGIDChange)
	state("the interface goes down", verbs.PortDown, 3, v4)
	hosttest.SetLink(t, "wire", true)
	want("the interface comes up", verbs.EventPortActive)
	hosttest.GiveIPv6(t, "wire", v6)
	want("the IPv6 address comes back", verbs.EventGIDChange)
	state("all is back", verbs.PortActive, 5, v4, v6)

	wire.Close()
	want("the interface is deleted", verbs.EventPortErr, verbs.EventGIDChange)
	state("the interface is deleted", verbs.PortDown, 3)
	hosttest.NewTun(t, "wire", v4, v6)
	want("the interface is made again", verbs.EventPortActive, verbs.EventGIDChange)
	state("the interface is made again", verbs.PortActive, 5, v4, v6)
}
