// Tests of the ICRC and of the recovered identification against a plain computation, over many
// lengths and all identifications.

package packet

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// randomFlow returns two endpoints of the same family.
func randomFlow(r *rand.Rand, v6 bool) (src, dst netip.AddrPort) {
	addr := func() netip.AddrPort {
		var a [16]byte
		binary.NativeEndian.PutUint64(a[:], r.Uint64())
		binary.NativeEndian.PutUint64(a[8:], r.Uint64())
		ip := netip.AddrFrom16(a)
		if !v6 {
			ip = netip.AddrFrom4([4]byte(a[:4]))
		}
		return netip.AddrPortFrom(ip, uint16(r.Uint32()))
	}
	return addr(), addr()
}

func randomPacket(r *rand.Rand, o Opcode, payload int) []byte {
	b := make([]byte, Len(o, payload))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	(*BTH)(b).setShape(o, padLen(payload))
	return b
}

func TestICRCAgainstFrame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 4000 {
		src, dst := randomFlow(r, i%2 == 0)
		f, err := NewFlow(src, dst)
		if err != nil {
			t.Fatal(err)
		}
		packet := randomPacket(r, RCSendOnly, r.IntN(MaxPayload+1))
		id := uint16(r.Uint32())
		ip, err := Frame{Src: src, Dst: dst, ID: id, TOS: byte(i), TTL: byte(i)}.Append(nil, packet)
		if err != nil {
			t.Fatal(err)
		}
		if _, want := FrameICRC(ip); f.ICRC(packet, id) != want {
			t.Fatalf("%v to %v, ID %d, %d bytes: %08x, want %08x", src, dst, id, len(packet), f.ICRC(packet, id), want)
		}
	}
}

func TestVerifyEveryID(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	f := flow(t, "10.1.2.3:50000", "10.3.2.1:4791")
	packet := randomPacket(r, RCSendOnly, 0)
	for i := range 1 << 16 {
		if i%16 == 0 {
			packet = randomPacket(r, RCSendOnly, r.IntN(MaxPayload+1)&^3)
		}
		f.Seal(packet, uint16(i))
		want := Match16
		if i < MaxSegments {
			want = MatchGSO
		}
		wrong := uint16(i) ^ uint16(1+r.IntN(0xffff))
		if m, id := f.Verify(packet, wrong); m != want || id != uint16(i) {
			t.Fatalf("ID %d with %d expected, %d bytes: Verify returned %v, ID %d", i, wrong, len(packet), m, id)
		}
		if m, id := f.Verify(packet, uint16(i)); m != MatchExact || id != uint16(i) {
			t.Fatalf("ID %d as expected, %d bytes: Verify returned %v, ID %d", i, len(packet), m, id)
		}
	}
}

// TestVerifyDamaged flips bits. Over IPv6 no damaged packet may pass. Over IPv4 about one in
// 65,536 may pass.
func TestVerifyDamaged(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	v4, v6 := flow(t, "10.1.2.3:50000", "10.3.2.1:4791"), flow(t, "[fd00::1]:50000", "[fd00::2]:4791")
	passed := 0
	const tries = 20000
	for range tries {
		packet := randomPacket(r, RCSendOnly, r.IntN(200)&^3)
		id := uint16(r.Uint32())
		damage := func() {
			i := r.IntN(len(packet) - 1)
			if i == 4 {
				i = 5 // the ICRC does not cover byte 4 of the BTH
			}
			packet[i] ^= byte(1 + r.IntN(255))
		}
		v6.Seal(packet, id)
		if m, _ := v6.Verify(packet, 0); m != MatchExact {
			t.Fatalf("intact packet over IPv6: %v", m)
		}
		if m, _ := v4.Verify(packet, 0); m.OK() {
			passed++ // a packet of another flow
		}
		damage()
		if m, _ := v6.Verify(packet, 0); m != NoMatch {
			t.Fatalf("damaged packet over IPv6: %v", m)
		}
		v4.Seal(packet, id)
		damage()
		if m, _ := v4.Verify(packet, 0); m.OK() {
			passed++
		}
	}
	if passed > 8 {
		t.Errorf("%d of %d damaged packets passed over IPv4, more than a check of 16 bits allows", passed, 2*tries)
	}
}

// TestVerifyMasked changes bits that the network may change.
func TestVerifyMasked(t *testing.T) {
	f := flow(t, "10.1.2.3:50000", "10.3.2.1:4791")
	p, err := Build(make([]byte, 64), RCSendOnly, 9)
	if err != nil {
		t.Fatal(err)
	}
	f.Seal(p.Bytes(), 0)
	p.BTH().SetFECN(true)
	p.BTH().SetBECN(true)
	if m, _ := f.Verify(p.Bytes(), 0); m != MatchExact {
		t.Errorf("packet with congestion marks: %v", m)
	}
}

func TestRemoveZeros(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 255, 256, 257, 4160, 65535} {
		const start = 0xdeadbeef
		r := uint32(start)
		for range n {
			r = appendZero(r)
		}
		if got := removeZeros(r, n); got != start {
			t.Errorf("%d zeros: %08x", n, got)
		}
	}
}

func TestNewFlow(t *testing.T) {
	v4, v6 := netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("[fd00::1]:1")
	for _, c := range [][2]netip.AddrPort{{v4, v6}, {v6, v4}, {v4, {}}, {{}, v6}, {}} {
		if _, err := NewFlow(c[0], c[1]); !errors.Is(err, ErrFlow) {
			t.Errorf("NewFlow(%v, %v): %v", c[0], c[1], err)
		}
		if _, err := (Frame{Src: c[0], Dst: c[1]}).Append(nil, make([]byte, 16)); !errors.Is(err, ErrFlow) {
			t.Errorf("Frame from %v to %v: %v", c[0], c[1], err)
		}
	}
	mapped := flow(t, "[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.2]:4791")
	if mapped != flow(t, "10.0.0.1:1", "10.0.0.2:4791") {
		t.Error("an IPv4-mapped address is not taken as IPv4")
	}
	zone := flow(t, "[fe80::1%eth0]:1", "[fe80::2%eth0]:4791")
	if zone != flow(t, "[fe80::1]:1", "[fe80::2]:4791") {
		t.Error("an IPv6 zone is not ignored")
	}
}

// TestFrameChecksum verifies the checksums as a receiver does: the sum over everything, with
// the checksum, must be all ones.
func TestFrameChecksum(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for i := range 2000 {
		src, dst := randomFlow(r, i%2 == 0)
		packet := randomPacket(r, UDSendOnly, r.IntN(64))
		prefix := []byte("before")
		b, err := Frame{Src: src, Dst: dst, ID: uint16(i)}.Append(prefix, packet)
		if err != nil {
			t.Fatal(err)
		}
		ip := b[len(prefix):]
		c := splitFrame(t, ip)
		if c.src != src || c.dst != dst || c.ttl != defaultTTL {
			t.Fatalf("from %v to %v, TTL %d; want %v, %v", c.src, c.dst, c.ttl, src, dst)
		}
		addresses := 8
		if ip[0]>>4 == 6 {
			addresses = 32
		} else if onesSum(0, ip[:20]) != 0xffff {
			t.Fatalf("IPv4 header checksum: % x", ip[:20])
		}
		udp := ip[c.ipLen:]
		sum := onesSum(uint32(ProtocolUDP+len(udp)), ip[c.ipLen-addresses:])
		if sum != 0xffff || binary.BigEndian.Uint16(udp[6:]) == 0 {
			t.Fatalf("UDP checksum: % x", ip)
		}
	}
}
