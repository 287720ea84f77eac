// Tests of shards: which socket gets which packet, and that an address stays one device's.

package link

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// TestShards sends packets of many queue pairs, in bursts, and expects each queue pair's packets at one socket, in order.
func TestShards(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, limit := range []Mode{Plain, Batched, Segmented} {
			t.Run(fmt.Sprintf("IPv6 %v, %v", v6, limit), func(t *testing.T) { testShards(t, v6, limit) })
		}
	}
}

func testShards(t *testing.T, v6 bool, limit Mode) {
	const n, qps, each = 4, 64, 10
	from, to := pair(t, v6, Config{Limit: limit})
	shards := split(t, to, n)
	var e Egress
	for qpn := range uint32(qps) {
		var burst []byte
		for psn := range uint32(each) {
			burst = append(burst, shardPacket(t, qpn, psn)...)
		}
		e.Add(Destination{Addr: to.Addr()}, burst, len(burst)/each)
	}
	if err := from.Send(&e); err != nil {
		t.Fatal(err)
	}
	for i, l := range shards {
		next := make(map[uint32]packet.PSN)
		for _, p := range receive(t, l, qps/n*each) {
			bth := (*packet.BTH)(p.Data)
			if qpn := bth.DestQPN(); qpn%n != uint32(i) || bth.PSN() != next[qpn] {
				t.Fatalf("socket %d: PSN %d of queue pair %d, want %d", i, bth.PSN(), qpn, next[qpn])
			}
			next[bth.DestQPN()]++
		}
	}
}

// split returns n links over which the packets for s are spread, with s first.
func split(t *testing.T, s *Socket, n int) []Link {
	t.Helper()
	more := Split(s, n-1)
	for _, l := range more {
		t.Cleanup(func() { l.Close() })
	}
	if len(more) != n-1 {
		t.Fatalf("%d more sockets instead of %d: %v", len(more), n-1, s.Status())
	}
	return append([]Link{s}, more...)
}

// receive returns the next n packets of a link.
func receive(t *testing.T, l Link, n int) (packets []Packet) {
	t.Helper()
	for in := NewIngress(); len(packets) < n; {
		stop := time.AfterFunc(testkit.Limit, l.Interrupt)
		err := l.Receive(in)
		stop.Stop()
		if err != nil {
			t.Fatalf("%d of %d packets: %v", len(packets), n, err)
		}
		for _, p := range in.Packets {
			p.Data = bytes.Clone(p.Data)
			packets = append(packets, p)
		}
	}
	return packets
}

func shardPacket(t *testing.T, qpn, psn uint32) []byte {
	raw := make([]byte, packet.Len(packet.RCSendOnly, 100))
	p, err := packet.Build(raw, packet.RCSendOnly, 100)
	if err != nil {
		t.Fatal(err)
	}
	p.BTH().SetDestQPN(qpn)
	p.BTH().SetPSN(packet.NewPSN(psn))
	return raw
}

// TestShardsKeepTheAddress checks that no second device gets the address.
func TestShardsKeepTheAddress(t *testing.T) {
	s := loopback(t, Config{})
	split(t, s, 3)
	_, err := Open(s.Addr(), Config{})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second Open: %v, want EADDRINUSE", err)
	}
}

// TestShort checks that datagrams which are too short for a queue pair's number arrive at the first socket.
func TestShort(t *testing.T) {
	s := loopback(t, Config{})
	links := split(t, s, 2)
	const short = 8
	for n := range short {
		to := &unix.SockaddrInet4{Port: int(s.local.Port()), Addr: s.Addr().As4()}
		if err := onFD(s.conn, func(fd int) error { return unix.Sendto(fd, make([]byte, n), 0, to) }); err != nil {
			t.Fatal(err)
		}
	}
	dropped := func(l Link) uint64 { return l.Counters()[DropLength] }
	testkit.Until(t, "short datagrams at the first socket", func() bool {
		_ = Trying(s)(NewIngress())
		return dropped(s) == short
	}, func() string { return fmt.Sprint(s.Counters()) })
	if err := Trying(links[1])(NewIngress()); !errors.Is(err, ErrInterrupted) || dropped(links[1]) != 0 {
		t.Errorf("something has arrived at the other socket: %v", err)
	}
}

// TestNoShards checks the note of a system that has no shards.
func TestNoShards(t *testing.T) {
	s := loopback(t, Config{})
	s.Close() // no options can be set
	if got := Split(s, 1); got != nil {
		t.Errorf("%d more sockets", len(got))
	}
	if notes := s.Status().Notes; len(notes) != 1 || !strings.Contains(notes[0], "one goroutine receives, not 2") {
		t.Errorf("%q", notes)
	}
	if got := Split(struct{ Link }{}, 1); got != nil {
		t.Errorf("no Socket: %d more sockets", len(got))
	}
}
