// Tests of invalid packets and of identifications.

package link

import (
	"crypto/rand"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// stranger returns a plain UDP socket on the same host, with the port of devices.
func stranger(t *testing.T) *net.UDPConn {
	t.Helper()
	var err error
	for last := byte(1); last < 50; last++ { // addresses that OpenLoopback does not take
		var c *net.UDPConn
		if c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 255, 0, last), Port: packet.Port}); err == nil {
			t.Cleanup(func() { c.Close() })
			return c
		}
	}
	t.Fatal(err)
	return nil
}

// garbage returns random bytes that are no packet. Other random bytes pass the ICRC check once in 65,536 times, because one
// identification fits then.
func garbage(t *testing.T, from, to netip.AddrPort, size int) []byte {
	t.Helper()
	flow, err := packet.NewFlow(from, to)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size)
	for {
		rand.Read(data)
		if size < minPacket {
			return data
		}
		if m, _ := flow.Verify(data, 0); !m.OK() {
			return data
		}
	}
}

func TestGarbage(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			a, b := pair(t, false, Config{Limit: mode})
			c := stranger(t)
			to := netip.AddrPortFrom(b.Addr(), packet.Port)
			sizes := []int{0, 1, minPacket - 1, minPacket, 64, 1000, packet.MaxPacket, packet.MaxPacket + 1, 9000, 60000}
			for _, size := range sizes {
				data := garbage(t, c.LocalAddr().(*net.UDPAddr).AddrPort(), to, size)
				if _, err := c.WriteToUDPAddrPort(data, to); err != nil {
					t.Fatal(err)
				}
			}
			sendAll(t, a, b, 3, 64)
			collect(t, b, 3)
			n := b.Counters()
			long := n[DropTruncated]
			if mode == Segmented { // its buffers are long enough
				long = n[DropICRC] - 4
			}
			if n[ReceivedPackets] != 3 || n[DropICRC]+n[DropTruncated] != 7 || long != 3 || n[DropLength] != 3 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestLongerThanAnyPacket checks that a packet with a correct ICRC and too many bytes
// arrives, because the responder must refuse it.
func TestLongerThanAnyPacket(t *testing.T) {
	a, b := pair(t, false, Config{})
	if m := Mode(b.receiveMode.Load()); m != Segmented {
		t.Fatalf("the system has no GRO: %v", b.Status())
	}
	const payload = 9000
	e, data := new(Egress), make([]byte, 12+payload+4)
	data[0] = byte(packet.RCSendOnly)
	e.Add(Destination{Addr: b.Addr()}, data, len(data))
	if err := a.Send(e); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, b, 1)[0]; len(got.Data) != len(data) || got.Match != packet.MatchExact {
		t.Errorf("%d bytes, %v", len(got.Data), got.Match)
	}
}

// arrivals passes datagrams of one sender to an Ingress, and simulates the clock.
type arrivals struct {
	t    *testing.T
	in   *Ingress
	src  netip.AddrPort
	now  time.Duration
	drop Counters
}

var arrivalsTo = netip.MustParseAddrPort("10.0.0.2:4791")

func newArrivals(t *testing.T) *arrivals {
	a := &arrivals{t: t, in: NewIngress(), src: netip.MustParseAddrPort("10.0.0.1:50000")}
	a.in.clock = func() time.Duration { return a.now }
	return a
}

// come passes in packets with the identifications ids, joined by GRO, and returns how each
// matched. Dropped packets are left out.
func (a *arrivals) come(ids ...uint16) (got []packet.Match) {
	a.t.Helper()
	return a.comeTo(arrivalsTo, ids...)
}

func (a *arrivals) comeTo(local netip.AddrPort, ids ...uint16) (got []packet.Match) {
	a.t.Helper()
	f, err := packet.NewFlow(a.src, local)
	if err != nil {
		a.t.Fatal(err)
	}
	size := packet.Len(packet.RCSendOnly, 64)
	var data []byte
	for _, id := range ids {
		raw := make([]byte, size)
		if _, err := packet.Build(raw, packet.RCSendOnly, 64); err != nil {
			a.t.Fatal(err)
		}
		f.Seal(raw, id)
		data = append(data, raw...)
	}
	a.in.Packets = a.in.Packets[:0]
	var counts Counters
	a.in.take(datagram{data: data, size: size, src: a.src}, local, nil, &counts)
	if len(a.in.Packets) != int(counts[ReceivedPackets]) {
		a.t.Fatalf("%d packets, %d counted", len(a.in.Packets), counts[ReceivedPackets])
	}
	a.drop = counts
	for i, p := range a.in.Packets {
		if len(a.in.Packets) == len(ids) && p.ID != ids[i] {
			a.t.Errorf("packet %d: ID %d, want %d", i, p.ID, ids[i])
		}
		got = append(got, p.Match)
	}
	return got
}

const (
	bits16 = packet.Match16
	near   = packet.MatchNear
	gso    = packet.MatchGSO
	exact  = packet.MatchExact
)

// TestIdentifications passes in GRO datagrams with the identifications of all kinds of
// senders. It expects an exact match where the identification is predictable.
func TestIdentifications(t *testing.T) {
	soft, rxe := newArrivals(t), newArrivals(t)
	rxe.in, rxe.src = soft.in, netip.MustParseAddrPort("10.0.0.3:50000")
	other := *rxe
	other.src = netip.MustParseAddrPort("10.0.0.3:50001") // another queue pair of the same sender; one count for both
	for _, c := range []struct {
		name string
		from *arrivals
		ids  []uint16
		want []packet.Match
	}{
		{"GSO", soft, []uint16{0, 1, 2, 3}, []packet.Match{exact, exact, exact, exact}},
		{"alone", soft, []uint16{0}, []packet.Match{exact}},
		{"alone, joined", soft, []uint16{0, 0, 0, 0}, []packet.Match{exact, gso, exact, exact}},
		{"rest of GSO", soft, []uint16{5, 6, 7}, []packet.Match{gso, exact, exact}},
		{"rxe, first", rxe, []uint16{900, 901, 902}, []packet.Match{bits16, exact, exact}},
		{"rxe, next", rxe, []uint16{903}, []packet.Match{exact}},
		{"rxe, another queue pair", &other, []uint16{904, 905}, []packet.Match{exact, exact}},
		{"rxe, gap", rxe, []uint16{910, 911}, []packet.Match{near, exact}},
		{"rxe, late", rxe, []uint16{909}, []packet.Match{near}},
		{"GSO between", soft, []uint16{0, 1}, []packet.Match{exact, exact}},
		{"rxe, on", rxe, []uint16{910, 912, 913}, []packet.Match{exact, near, exact}},
	} {
		if got := c.from.come(c.ids...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	rxe = newArrivals(t)
	for _, ids := range [][]uint16{{65400}, {65535, 0, 1}, {2, 3}, {9}, {100, 127, 128, 129}} { // the count wraps around to numbers that GSO uses too
		if got := rxe.come(ids...); len(got) != len(ids) || slices.Contains(got, gso) {
			t.Errorf("%d: %v", ids, got)
		}
	}
	rxe = newArrivals(t)
	if got := slices.Concat(rxe.come(126), rxe.come(127), rxe.come(128), rxe.come(129)); !slices.Equal(got, []packet.Match{gso, gso, near, exact}) {
		t.Errorf("a count that starts below 128: %v", got)
	}
}

// TestNumbersFarAway checks that a packet with a number far from the expected number is
// dropped as damaged. If the next number is far away too, the sender's count has jumped,
// and packets are accepted.
func TestNumbersFarAway(t *testing.T) {
	for name, first := range map[string][]uint16{"a count": {900, 901}, "GSO": {0, 1, 2, 3}} {
		for far := 5000; far < 65000; far += 10000 {
			a := newArrivals(t)
			a.come(first...)
			if got := a.come(uint16(far)); len(got) != 0 || a.drop[DropIdentification] != 1 {
				t.Errorf("%s, then %d: %v, %v", name, far, got, a.drop)
			}
			if got := a.come(first[len(first)-1] + 1); len(got) != 1 {
				t.Errorf("%s: what comes after it is dropped: %v", name, a.drop)
			}
		}
	}
	a := newArrivals(t)
	a.come(900)
	if got := a.come(20000, 20001, 20002, 20003); !slices.Equal(got, []packet.Match{bits16, exact, exact}) {
		t.Errorf("after a jump: %v", got)
	}
	for i := range uint16(doubtful) {
		a.come(20004 + i)
	}
	if got := a.come(40000); len(got) != 0 {
		t.Errorf("the next jump: %v", got)
	}
	// A sender with random numbers loses one packet, not every second packet.
	a = newArrivals(t)
	lost := 0
	for i := range uint16(1000) {
		lost += 1 - len(a.come(i*7919+12345))
	}
	if lost > 1 {
		t.Errorf("%d of 1000 packets lost", lost)
	}
}

// TestWindowOfNumbers counts the numbers that are accepted from a sender that counts. More
// are accepted after a pause, because Linux adds up to one per tick that has passed.
func TestWindowOfNumbers(t *testing.T) {
	for _, pause := range []time.Duration{0, 100 * time.Millisecond, time.Second, time.Hour} {
		taken := 0
		for id := range 1 << 16 {
			s := sender{known: true, counts: true, next: 30000}
			if s.judge(packet.Match16, uint16(id), pause).OK() {
				taken++
			}
		}
		if want := min(256+int(pause/time.Millisecond), 1<<16); taken != want {
			t.Errorf("after %v: %d numbers are accepted, want %d", pause, taken, want)
		}
	}
}

// TestDamageWithin damages one packet in the middle of a datagram.
func TestDamageWithin(t *testing.T) {
	src, local := netip.MustParseAddrPort("10.0.0.1:50000"), arrivalsTo
	f, err := packet.NewFlow(src, local)
	if err != nil {
		t.Fatal(err)
	}
	size := packet.Len(packet.RCSendOnly, 64)
	in := NewIngress()
	// The other packets of the datagram still arrive.
	data := make([]byte, 3*size)
	for i := range 3 {
		raw := data[i*size:][:size]
		if _, err := packet.Build(raw, packet.RCSendOnly, 64); err != nil {
			t.Fatal(err)
		}
		f.Seal(raw, uint16(i))
	}
	data[size+20] ^= 1
	in.Packets = in.Packets[:0]
	var counts Counters
	in.take(datagram{data: data, size: size, src: src}, local, nil, &counts)
	if len(in.Packets) != 2 || counts[Matched+Counter(packet.MatchExact)] != 2 || counts[DropICRC] != 1 {
		t.Errorf("%d packets, %+v", len(in.Packets), counts)
	}
}

func TestTap(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			a, b := pair(t, false, Config{Limit: mode})
			sent, received := 0, 0
			check := func(n *int, want bool) Tap {
				return func(sent bool, f packet.Frame, raw []byte) {
					flow, err := packet.NewFlow(f.Src, f.Dst)
					if err != nil {
						t.Error(err)
						return
					}
					if m, _ := flow.Verify(raw, f.ID); m != packet.MatchExact || sent != want {
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

// TestConcurrent sends from many goroutines on one link.
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
	if n := a.Counters()[SentPackets]; n != uint64(len(got)) {
		t.Errorf("%d sent, %d arrived", n, len(got))
	}
}

// TestSourcePort sends good packets from other ports of a peer's address, as a local user can.
func TestSourcePort(t *testing.T) {
	for _, c := range []struct {
		src  string
		took int
	}{
		{"127.1.2.3:4791", 2}, {"127.1.2.3:50000", 0}, {"[::1]:50000", 0}, {"10.0.0.1:50000", 2},
	} {
		a := newArrivals(t)
		a.src = netip.MustParseAddrPort(c.src)
		local := arrivalsTo
		if a.src.Addr().Is6() {
			local = netip.MustParseAddrPort("[fd00::1]:4791")
		}
		if got := a.comeTo(local, 0, 1); len(got) != c.took || a.drop[DropPort] != uint64(2-c.took)/2 {
			t.Errorf("%s: %d packets taken, %d datagrams dropped", c.src, len(got), a.drop[DropPort])
		}
	}
}

// TestSourcePortOfSocket checks the same with a socket of another program.
func TestSourcePortOfSocket(t *testing.T) {
	a, b := pair(t, false, Config{})
	other, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a.Addr(), 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(b.Addr(), packet.Port)))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	raw := make([]byte, packet.Len(packet.RCSendOnly, 8))
	if _, err := packet.Build(raw, packet.RCSendOnly, 8); err != nil {
		t.Fatal(err)
	}
	f, err := packet.NewFlow(other.LocalAddr().(*net.UDPAddr).AddrPort(), netip.AddrPortFrom(b.Addr(), packet.Port))
	if err != nil {
		t.Fatal(err)
	}
	f.Seal(raw, 0)
	if _, err := other.Write(raw); err != nil {
		t.Fatal(err)
	}
	e := new(Egress)
	fill(t, e, b.Addr(), 1, 100, 7)
	if err := a.Send(e); err != nil {
		t.Fatal(err)
	}
	got := collect(t, b, 1)
	if got[0].SrcPort != packet.Port || b.Counters()[DropPort] != 1 {
		t.Errorf("the packet of port %d was taken; %v dropped", got[0].SrcPort, b.Counters())
	}
}
