// Tests of sending and receiving over loopback, in each mode.

package link

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

var modes = []Mode{Plain, Batched, Segmented}

// pair opens two links that reach each other over IPv4. Over IPv6 loopback has only one
// address, so pair returns one link twice.
func pair(t testing.TB, v6 bool, cfg Config) (a, b *Socket) {
	t.Helper()
	if v6 {
		if !testkit.IPv6Loopback(t) {
			t.Skip("this host has no ::1")
		}
		s, err := Open(netip.IPv6Loopback(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s, s
	}
	return loopback(t, cfg), loopback(t, cfg)
}

func loopback(t testing.TB, cfg Config) *Socket {
	t.Helper()
	s, err := OpenLoopback(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// fill adds n packets for dst with payload bytes each and PSNs from psn.
func fill(t testing.TB, e *Egress, dst netip.Addr, n, payload, psn int) {
	t.Helper()
	fillTo(t, e, Destination{Addr: dst}, n, payload, psn)
}

func fillTo(t testing.TB, e *Egress, to Destination, n, payload, psn int) {
	t.Helper()
	size := packet.Len(packet.RCSendOnly, payload)
	data := make([]byte, n*size)
	for i := range n {
		p, err := packet.Build(data[i*size:], packet.RCSendOnly, payload)
		if err != nil {
			t.Fatal(err)
		}
		p.BTH().SetPSN(packet.NewPSN(uint32(psn + i)))
		for j := range p.Payload() {
			p.Payload()[j] = byte(j + psn + i)
		}
	}
	e.Add(to, data, size)
}

func sendAll(t testing.TB, from, to Link, n, payload int) {
	t.Helper()
	e := new(Egress)
	fill(t, e, to.Addr(), n, payload, 0)
	if err := from.Send(e); err != nil {
		t.Fatal(err)
	}
}

// collect receives n packets.
func collect(t testing.TB, l Link, n int) (got []Packet) {
	t.Helper()
	stop := time.AfterFunc(testkit.Limit, func() { l.Close() })
	defer stop.Stop()
	in := NewIngress()
	for len(got) < n {
		if err := l.Receive(in); err != nil {
			t.Fatalf("after %d of %d packets: %v; %+v", len(got), n, err, l.Counters())
		}
		for _, p := range in.Packets {
			p.Data = bytes.Clone(p.Data)
			got = append(got, p)
		}
	}
	return got
}

func TestSendReceive(t *testing.T) {
	for _, mode := range modes {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/v6=%v", mode, v6), func(t *testing.T) {
				a, b := pair(t, v6, Config{Limit: mode})
				e := new(Egress)
				const n = 150
				fill(t, e, b.Addr(), n, 4096, 0)
				fill(t, e, b.Addr(), 1, 100, n)
				if err := a.Send(e); err != nil {
					t.Fatal(err)
				}
				got := collect(t, b, n+1)
				for i, p := range got {
					parsed, err := packet.Parse(p.Data)
					if err != nil {
						t.Fatal(err)
					}
					if psn := parsed.BTH().PSN(); psn != packet.PSN(i) {
						t.Fatalf("packet %d has PSN %d", i, psn)
					}
					if p.Src != a.Addr() || p.Dst != b.Addr() || p.SrcPort != packet.Port {
						t.Fatalf("from %v port %d to %v", p.Src, p.SrcPort, p.Dst)
					}
					if p.Match != packet.MatchExact {
						t.Errorf("packet %d: match %v, ID %d", i, p.Match, p.ID)
					}
				}
				t.Logf("%v\n%+v\n%+v", a.Status(), a.Counters(), b.Counters())
			})
		}
	}
}

func TestReach(t *testing.T) {
	s, err := OpenLoopback(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Reach(netip.MustParseAddr("127.1.2.3")); err != nil {
		t.Errorf("from %v: %v", s.Addr(), err)
	}
	if err := s.Reach(netip.MustParseAddr("192.0.2.1")); err == nil {
		t.Errorf("%v reaches a network that is not loopback", s.Addr())
	}
}

func TestClose(t *testing.T) {
	for _, mode := range modes {
		s := loopback(t, Config{Limit: mode})
		done := make(chan error)
		go func() { done <- s.Receive(NewIngress()) }()
		time.Sleep(testkit.Moment) // probably until Receive waits
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := testkit.Receive(t, done, "end of Receive"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Receive: %v", err)
		}
		e := new(Egress)
		fill(t, e, s.Addr(), 1, 8, 0)
		if err := s.Send(e); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Send: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	}
}

// interrupts interrupts Receive during and before its wait, and checks that packets still
// arrive in between.
func interrupts(t *testing.T, from, to Link) {
	t.Helper()
	in := NewIngress()
	done := make(chan error)
	for range 3 {
		go func() { done <- to.Receive(in) }()
		time.Sleep(testkit.Moment) // probably until Receive waits
		to.Interrupt()
		if err := testkit.Receive(t, done, "end of Receive"); err != ErrInterrupted {
			t.Fatalf("interrupted while waiting: %v", err)
		}
		to.Interrupt()
		to.Interrupt()
		if err := to.Receive(in); err != ErrInterrupted {
			t.Fatalf("interrupted before: %v", err)
		}
		e := new(Egress)
		fill(t, e, to.Addr(), 1, 8, 0)
		if err := from.Send(e); err != nil {
			t.Fatal(err)
		}
		if err := to.Receive(in); err != nil || len(in.Packets) != 1 {
			t.Fatalf("after it: %d packets, %v", len(in.Packets), err)
		}
	}
}

func TestInterrupt(t *testing.T) {
	for _, mode := range modes {
		interrupts(t, loopback(t, Config{}), loopback(t, Config{Limit: mode}))
	}
}
