//go:build linux && netns

package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/host/hosttest"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// TestNetnsFlowLabel needs addresses that are not loopback addresses, and gives them to the loopback interface of
// a network namespace.
func TestNetnsFlowLabel(t *testing.T) {
	if !hosttest.OwnNetwork(t) {
		return
	}
	var addrs [2][2]netip.Addr // IPv4, IPv6
	for i, a := range []string{"10.77.0.1", "10.77.0.2"} {
		addrs[0][i] = netip.MustParseAddr(a)
		giveIPv4(t, fmt.Sprintf("lo:%d", i+1), addrs[0][i])
	}
	for i, a := range []string{"fd77::1", "fd77::2"} {
		addrs[1][i] = netip.MustParseAddr(a)
		hosttest.GiveIPv6(t, "lo", addrs[1][i])
	}
	open := func(t *testing.T, addr netip.Addr, mode Mode) *Socket {
		s, err := Open(addr, Config{Limit: mode})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	for _, mode := range modes {
		for i, name := range []string{"IPv4", "IPv6"} {
			t.Run(fmt.Sprintf("%v/%s", mode, name), func(t *testing.T) {
				testSource(t, open(t, addrs[i][0], mode), open(t, addrs[i][1], mode))
			})
		}
	}
	t.Run("taken", func(t *testing.T) { testTaken(t, open(t, addrs[0][0], Segmented)) })
	t.Run("beside", func(t *testing.T) {
		testBeside(t, open(t, addrs[0][0], Segmented), open(t, addrs[0][1], Segmented))
	})
	t.Run("many", func(t *testing.T) { testMany(t, open(t, addrs[0][0], Segmented)) })
}

func giveIPv4(t *testing.T, alias string, addr netip.Addr) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(alias)
	if err != nil {
		t.Fatal(err)
	}
	if err := request.SetInet4Addr(addr.AsSlice()); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, request); err != nil {
		t.Fatalf("giving %s %v: %v", alias, addr, err)
	}
}

// testSource: packets with a flow label leave from the port that the label gives, with the ICRC of that
// port, beside those without a label and in the order of their Egress.
func testSource(t *testing.T, a, b *Socket) {
	if port := a.SourcePort(0); port != 0 {
		t.Errorf("without a label: port %d", port)
	}
	source := a.SourcePort(0x54321)
	const want = 0xc000 | 0x0321 ^ 0x15 // bits 0 to 13, and 14 to 19
	if source != want {
		t.Errorf("source port %#x, want %#x", source, want)
	}
	if again := a.SourcePort(0x54321); again != source {
		t.Errorf("the second time, port %d", again)
	}
	e := new(Egress)
	const n = 20 // a burst is shorter
	for i, port := range []uint16{source, 0, source} {
		fillTo(t, e, Destination{Addr: b.Addr(), Source: port}, n, 4096, i*n)
	}
	if err := a.Send(e); err != nil {
		t.Fatal(err)
	}
	last := map[uint16]packet.PSN{}
	for _, p := range collect(t, b, 3*n) {
		parsed, err := packet.Parse(p.Data)
		if err != nil {
			t.Fatal(err)
		}
		psn := parsed.BTH().PSN()
		want := source
		if psn/n == 1 {
			want = packet.Port
		}
		if p.SrcPort != want || p.Match != packet.MatchExact {
			t.Errorf("PSN %d from port %d, want %d, match %v", psn, p.SrcPort, want, p.Match)
		}
		if before, ok := last[p.SrcPort]; ok && psn <= before {
			t.Errorf("PSN %d after %d from port %d", psn, before, p.SrcPort)
		}
		last[p.SrcPort] = psn
	}
}

// testTaken: if another program has a port, a neighbour serves, and if it has all of them,
// the usual port and a note.
func testTaken(t *testing.T, a *Socket) {
	take := func(port uint16) {
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a.Addr(), port)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	take(0xc100)
	if port := a.SourcePort(0x100); port == 0xc100 || port&0xfff0 != 0xc100 {
		t.Errorf("port %#x, want a neighbour of 0xc100", port)
	}
	for i := range uint16(16) {
		take(0xc200 + i)
	}
	const note = "packets with flow label 0x200 leave from port 4791 like those without: UDP ports 49664 to 49679 of 10.77.0.1: " +
		"address already in use; try: another flow label, because other programs use these ports"
	for range 2 {
		if port := a.SourcePort(0x200); port != 0 {
			t.Errorf("port %#x", port)
		}
	}
	if n := strings.Count(fmt.Sprint(a.Status().Notes), note); n != 1 {
		t.Errorf("%v has the note %d times, want once: %s", a.Status(), n, note)
	}
}

// testBeside: labels, packets and Close may come at the same time.
func testBeside(t *testing.T, a, b *Socket) {
	var work sync.WaitGroup
	for g := range uint32(4) {
		work.Go(func() {
			e := new(Egress)
			for label := g + 1; ; label += 4 {
				fillTo(t, e, Destination{Addr: b.Addr(), Source: a.SourcePort(label)}, 1, 256, 0)
				if err := a.Send(e); errors.Is(err, net.ErrClosed) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	testkit.Until(t, "thousand packets", func() bool { return a.Counters()[SentPackets] >= 1000 })
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	work.Wait()
}

// testMany: the number of sockets has a limit, and Close frees their ports.
func testMany(t *testing.T, a *Socket) {
	ports := map[uint16]int{}
	for label := range uint32(1000) {
		ports[a.SourcePort(label+1)]++
	}
	if len(ports) != maxOutlets || ports[0] != 0 {
		t.Errorf("%d source ports, want %d: %v", len(ports), maxOutlets, ports)
	}
	for port, n := range ports {
		if n < 1000/maxOutlets {
			t.Errorf("port %d serves %d labels of 1000", port, n)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for port := range ports {
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a.Addr(), port)))
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	if port := a.SourcePort(5000); port != 0 {
		t.Errorf("after Close: port %d", port)
	}
}
