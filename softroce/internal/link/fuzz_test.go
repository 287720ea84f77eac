package link

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// FuzzIngress passes two datagrams of arbitrary bytes to an Ingress. Each packet is taken or counted as dropped,
// once, and each that is taken has a correct ICRC for its sender.
func FuzzIngress(f *testing.F) {
	whole := make([]byte, 3*64)
	f.Add(whole, uint16(64), uint16(packet.Port), byte(1), uint16(0))
	f.Add(whole, uint16(0), uint16(packet.Port), byte(1), uint16(7))
	f.Add(whole, uint16(50), uint16(packet.Port), byte(3), uint16(0xffff))
	f.Add(whole, uint16(64), uint16(packet.Port+1), byte(1), uint16(0))
	f.Add(whole[:minPacket-1], uint16(64), uint16(1), byte(0), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, size, port uint16, how byte, id uint16) {
		local, src := netip.MustParseAddrPort("127.0.0.1:4791"), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), port)
		if how&2 != 0 {
			local, src = netip.MustParseAddrPort("[fd00::1]:4791"), netip.AddrPortFrom(netip.MustParseAddr("fd00::2"), port)
		}
		if how&4 != 0 {
			src = netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), port)
		}
		data = bytes.Clone(data)
		flow, err := packet.NewFlow(src, local)
		if err == nil && how&1 != 0 && size >= minPacket { // as a device sends them
			for raw := range slices.Chunk(data, int(size)) {
				if len(raw) >= minPacket {
					flow.Seal(raw, id)
				}
				id++
			}
		}
		in, sent := NewIngress(), uint64(0)
		var n Counters
		for range 2 { // the second one meets what the first one left
			taken := len(in.Packets)
			in.take(datagram{data: data, size: int(size), src: src}, local, nil, &n)
			sent += packets(len(data), int(size), n[DropPort]+n[DropSource] > 0)
			for _, p := range in.Packets[taken:] {
				if m, _ := flow.Verify(p.Data, p.ID); err != nil || !m.OK() || p.Src != src.Addr() || p.SrcPort != port || len(p.Data) < minPacket {
					t.Errorf("took % x from %v:%d, match %v", p.Data, p.Src, p.SrcPort, m)
				}
			}
		}
		counted := n[ReceivedPackets]
		for _, dropped := range n[DropTruncated:Matched] {
			counted += dropped
		}
		if counted != sent || n[ReceivedPackets] != uint64(len(in.Packets)) {
			t.Errorf("%d packets were sent; %d are counted, %d of them as taken, and %d were taken", sent, counted, n[ReceivedPackets], len(in.Packets))
		}
	})
}

// packets returns how many packets a datagram counts as: one, if its sender is refused.
func packets(length, size int, refused bool) uint64 {
	if refused || length == 0 || size <= 0 || size > length {
		return 1
	}
	return uint64((length + size - 1) / size)
}
