// This file tests what comes that should not, and identifications.

package link

import (
	"crypto/rand"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/rawverbs/rawverbs/softroce/internal/wire"
)

// stranger returns a socket of package net on the same host.
func stranger(t *testing.T) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestGarbage(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			a, b := pair(t, false, Config{Limit: mode})
			c := stranger(t)
			to := netip.AddrPortFrom(b.Addr(), wire.Port)
			sizes := []int{0, 1, minPacket - 1, minPacket, 64, 1000, wire.MaxPacket, wire.MaxPacket + 1, 9000, 60000}
			for _, size := range sizes {
				data := make([]byte, size)
				rand.Read(data)
				if _, err := c.WriteToUDPAddrPort(data, to); err != nil {
					t.Fatal(err)
				}
			}
			sendAll(t, a, b, 3, 64)
			collect(t, b, 3)
			n := b.Counters()
			// A stranger's packet gets by once in 65,536 times.
			long := n.Dropped[DropTruncated]
			if mode == Segmented { // there is room for them
				long = n.Dropped[DropICRC] - 4
			}
			if n.ReceivedPackets != 3 || n.Dropped[DropICRC]+n.Dropped[DropTruncated] != 7 || long != 3 || n.Dropped[DropLength] != 3 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestLongerThanAnyPacket: a sound packet with too much in it arrives, since a responder
// has to refuse it.
func TestLongerThanAnyPacket(t *testing.T) {
	a, b := pair(t, false, Config{})
	if m := Mode(b.receiveMode.Load()); m != Segmented {
		t.Fatalf("the system has no GRO: %v", b.Status())
	}
	const payload = 9000
	e, data := new(Egress), make([]byte, 12+payload+4)
	data[0] = byte(wire.RCSendOnly)
	e.Add(Destination{Addr: b.Addr()}, data, len(data))
	if err := a.Send(e); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, b, 1)[0]; len(got.Data) != len(data) || got.Match != wire.MatchExact {
		t.Errorf("%d bytes, %v", len(got.Data), got.Match)
	}
}

// TestIdentifications has datagrams of GRO with identifications of all kinds of
// senders, and expects exact checks where they can be foreseen.
func TestIdentifications(t *testing.T) {
	local := netip.MustParseAddrPort("10.0.0.2:4791")
	src := netip.MustParseAddrPort("10.0.0.1:50000")
	f, err := wire.NewFlow(src, local)
	if err != nil {
		t.Fatal(err)
	}
	size := wire.PacketLen(wire.RCSendOnly, 64)
	in := NewIngress()
	for _, c := range []struct {
		name string
		ids  []uint16
		want []wire.Match
	}{
		{"GSO", []uint16{0, 1, 2, 3}, []wire.Match{3, 3, 3, 3}},
		{"alone", []uint16{0}, []wire.Match{3}},
		{"alone, joined", []uint16{0, 0, 0, 0}, []wire.Match{3, 2, 3, 3}},
		{"rest of GSO", []uint16{5, 6, 7}, []wire.Match{2, 3, 3}},
		{"rxe, first", []uint16{900, 901, 902}, []wire.Match{1, 3, 3}},
		{"rxe, next", []uint16{903}, []wire.Match{3}},
		{"rxe, gap", []uint16{910, 911}, []wire.Match{1, 3}},
		{"rxe, wraps", []uint16{65535, 0, 1}, []wire.Match{1, 3, 3}},
		{"rxe, after", []uint16{2, 3}, []wire.Match{3, 3}},
		{"GSO from there", []uint16{0, 1, 2}, []wire.Match{2, 3, 3}},
		{"again", []uint16{0, 1, 2}, []wire.Match{3, 3, 3}},
	} {
		var data []byte
		for _, id := range c.ids {
			packet := make([]byte, size)
			if _, err := wire.Build(packet, wire.RCSendOnly, 64); err != nil {
				t.Fatal(err)
			}
			f.Seal(packet, id)
			data = append(data, packet...)
		}
		in.Packets = in.Packets[:0]
		var counts tally
		in.take(datagram{data: data, size: size, src: src}, local, nil, &counts)
		if len(in.Packets) != len(c.ids) || counts.packets != uint64(len(c.ids)) {
			t.Fatalf("%s: %d packets", c.name, len(in.Packets))
		}
		for i, p := range in.Packets {
			if p.ID != c.ids[i] || p.Match != c.want[i] {
				t.Errorf("%s: packet %d: ID %d, match %v; want %d, %v", c.name, i, p.ID, p.Match, c.ids[i], c.want[i])
			}
		}
	}
	// One damaged in the middle does not spoil the rest.
	data := make([]byte, 3*size)
	for i := range 3 {
		packet := data[i*size:][:size]
		if _, err := wire.Build(packet, wire.RCSendOnly, 64); err != nil {
			t.Fatal(err)
		}
		f.Seal(packet, uint16(i))
	}
	data[size+20] ^= 1
	in.Packets = in.Packets[:0]
	var counts tally
	in.take(datagram{data: data, size: size, src: src}, local, nil, &counts)
	if len(in.Packets) != 2 || counts.matches[wire.MatchExact] != 2 || counts.drops[DropICRC] != 1 {
		t.Errorf("%d packets, %+v", len(in.Packets), counts)
	}
}

func TestTap(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			a, b := pair(t, false, Config{Limit: mode})
			sent, received := 0, 0
			check := func(n *int, want bool) Tap {
				return func(sent bool, f wire.Frame, packet []byte) {
					flow, err := wire.NewFlow(f.Src, f.Dst)
					if err != nil {
						t.Error(err)
						return
					}
					if m, _ := flow.Verify(packet, f.ID); m != wire.MatchExact || sent != want {
						t.Errorf("%+v: %v, sent %v", f, m, sent)
					}
					if f.Src.Addr() != a.Addr() || f.Dst.Addr() != b.Addr() {
						t.Errorf("%+v", f)
					}
					*n++
				}
			}
			a.SetTap(check(&sent, true))
			b.SetTap(check(&received, false))
			sendAll(t, a, b, 5, 1024)
			collect(t, b, 5)
			a.SetTap(nil)
			sendAll(t, a, b, 5, 1024)
			collect(t, b, 5)
			if sent != 5 || received != 10 {
				t.Errorf("%d sent, %d received", sent, received)
			}
		})
	}
}

// TestConcurrent has many senders on one link.
func TestConcurrent(t *testing.T) {
	a, b := pair(t, false, Config{})
	const senders, each = 4, 50
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			e := new(Egress)
			for range each {
				fill(t, e, b.Addr(), 2, 200, 0)
				if err := a.Send(e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	got := collect(t, b, senders*each*2)
	wg.Wait()
	if n := a.Counters().SentPackets; n != uint64(len(got)) {
		t.Errorf("%d sent, %d came", n, len(got))
	}
}
