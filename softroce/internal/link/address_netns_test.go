//go:build linux && netns

package link

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/rawverbs/rawverbs/softroce/internal/host"
	"github.com/rawverbs/rawverbs/softroce/internal/host/hosttest"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// TestNetnsShardsByAddress checks that the sender's address chooses the socket of packets that do not come over loopback.
func TestNetnsShardsByAddress(t *testing.T) {
	if !hosttest.OwnNetwork(t) {
		return
	}
	wire := hosttest.NewTun(t, "wire", netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fd09::1"))
	for _, local := range []string{"10.9.0.1", "fd09::1"} {
		s, err := Open(netip.MustParseAddr(local), Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		const n, qps = 2, 20
		links := split(t, s, n)
		peers := []netip.Addr{s.Addr().Next(), s.Addr().Next().Next()} // 2 and 3
		for qpn := range uint32(qps) {
			for _, peer := range peers {
				raw := shardPacket(t, qpn, 0)
				f := packet.Frame{Src: netip.AddrPortFrom(peer, packet.Port), Dst: netip.AddrPortFrom(s.Addr(), packet.Port)}
				flow, err := packet.NewFlow(f.Src, f.Dst)
				if err != nil {
					t.Fatal(err)
				}
				flow.Seal(raw, 0)
				ip, err := f.Append(nil, raw)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := wire.Write(ip); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, l := range links {
			for _, p := range receive(t, l, qps) {
				if p.Src != peers[i] {
					t.Fatalf("socket %d: a packet from %v, want %v", i, p.Src, peers[i])
				}
			}
		}
	}
}

// TestNetnsLinkLocal sends packets to its own link-local address; they stay on the host. Not every host has one.
func TestNetnsLinkLocal(t *testing.T) {
	if !hosttest.OwnNetwork(t) {
		return
	}
	all, err := host.Addresses("lo")
	if err != nil {
		t.Fatal(err)
	}
	addr := all[slices.IndexFunc(all, netip.Addr.IsLinkLocalUnicast)]
	for _, mode := range modes {
		s, err := Open(addr, Config{Limit: mode})
		if err != nil {
			t.Fatal(err)
		}
		sendAll(t, s, s, 5, 256)
		for _, p := range collect(t, s, 5) {
			if p.Src != addr || p.Dst != addr || p.Match != packet.MatchExact {
				t.Errorf("%v to %v: %v", p.Src, p.Dst, p.Match)
			}
		}
		s.Close()
	}
}

// TestNetnsAddressComesBack: a link works again when the host has its address and its interface again.
func TestNetnsAddressComesBack(t *testing.T) {
	if !hosttest.OwnNetwork(t) {
		return
	}
	addr := netip.MustParseAddr("10.9.0.1")
	wire := hosttest.NewTun(t, "wire", addr, netip.MustParseAddr("fd09::1"))
	s, err := Open(addr, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for what, goAndComeBack := range map[string]func(){
		"address": func() {
			hosttest.GiveIPv4(t, "wire", netip.IPv4Unspecified())
			hosttest.GiveIPv4(t, "wire", addr)
		},
		"link": func() {
			hosttest.SetLink(t, "wire", false)
			hosttest.SetLink(t, "wire", true)
		},
		"interface": func() {
			wire.Close()
			wire = hosttest.NewTun(t, "wire", addr, netip.MustParseAddr("fd09::1"))
		},
	} {
		goAndComeBack()
		sendAll(t, s, s, 5, 256)
		for _, p := range collect(t, s, 5) {
			if p.Src != addr || p.Dst != addr {
				t.Errorf("after the %s came back: %v to %v", what, p.Src, p.Dst)
			}
		}
	}
}
