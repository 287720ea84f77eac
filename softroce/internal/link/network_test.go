// Tests of the simulated network.

package link

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// simulatedPair opens two links of a network with IPv6 addresses, because their ICRC check
// misses no damage.
func simulatedPair(t testing.TB, cfg NetworkConfig) (n *Network, a, b Link) {
	t.Helper()
	n = NewNetwork(cfg)
	open := func(addr string) Link {
		l, err := n.Open(netip.MustParseAddr(addr))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	return n, open("fd00::1"), open("fd00::2")
}

// drain receives until no packet arrives for a second.
func drain(t testing.TB, l Link) (got []packet.PSN) {
	t.Helper()
	psns := make(chan packet.PSN)
	go func() {
		defer close(psns)
		in := NewIngress()
		for l.Receive(in) == nil {
			for _, p := range in.Packets {
				parsed, err := packet.Parse(p.Data)
				if err != nil {
					t.Error(err)
					return
				}
				psns <- parsed.BTH().PSN()
			}
		}
	}()
	for {
		select {
		case psn := <-psns:
			got = append(got, psn)
		case <-time.After(time.Second):
			l.Close()
			for range psns {
			}
			return got
		}
	}
}

func sendAll(t testing.TB, from, to Link, n, payload int) {
	t.Helper()
	e := new(Egress)
	fill(t, e, to.Addr(), n, payload, 0)
	if err := from.Send(e); err != nil {
		t.Fatal(err)
	}
}

func TestNetworkFaults(t *testing.T) {
	const packets = 10000
	for _, c := range []struct {
		name   string
		faults Faults
	}{
		{"none", Faults{}},
		{"loss", Faults{Loss: 0.05}},
		{"duplication", Faults{Duplicate: 0.05}},
		{"reordering", Faults{Reorder: 0.05}},
		{"corruption", Faults{Corrupt: 0.05}},
		{"delay", Faults{Delay: 5 * time.Millisecond}},
		{"all", Faults{Loss: 0.02, Duplicate: 0.02, Reorder: 0.02, Corrupt: 0.02, Delay: time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := func(seed uint64) (got []packet.PSN, s NetworkStatistics) {
				synctest.Test(t, func(t *testing.T) {
					n, a, b := simulatedPair(t, NetworkConfig{Seed: seed, Faults: c.faults})
					start := time.Now()
					sendAll(t, a, b, packets, 64)
					got = drain(t, b)
					if d := time.Since(start); d < c.faults.Delay+time.Second {
						t.Errorf("took %v", d)
					}
					s = n.Statistics()
					if drops := b.Counters().Dropped[DropICRC]; drops != s.Corrupted {
						t.Errorf("%d bad ICRCs, %d corrupted", drops, s.Corrupted)
					}
				})
				return got, s
			}
			got, s := run(1)
			near := func(what string, n uint64, p float64) {
				if want := p * packets; float64(n) < 0.8*want || float64(n) > 1.2*want {
					t.Errorf("%s: %d, not about %v", what, n, want)
				}
			}
			near("lost", s.Lost, c.faults.Loss)
			near("duplicated", s.Duplicated, c.faults.Duplicate)
			near("reordered", s.Reordered, c.faults.Reorder)
			near("corrupted", s.Corrupted, c.faults.Corrupt)
			if want := packets - s.Lost + s.Duplicated - s.Corrupted; uint64(len(got)) != want {
				t.Errorf("%d packets came, want %d", len(got), want)
			}
			overtaken := 0
			for i := 1; i < len(got); i++ {
				if got[i].Before(got[i-1]) {
					overtaken++
				}
			}
			if (overtaken > 0) != (s.Reordered > 0) {
				t.Errorf("%d out of order, %d reordered", overtaken, s.Reordered)
			}
			again, s2 := run(1)
			if s2 != s || len(again) != len(got) {
				t.Errorf("the same seed: %+v, then %+v", s, s2)
			}
			for i := range again {
				if again[i] != got[i] {
					t.Fatalf("the same seed: packet %d is %d, then %d", i, got[i], again[i])
				}
			}
			if _, s3 := run(2); c.faults.Loss > 0 && s3 == s {
				t.Errorf("another seed: %+v too", s3)
			}
		})
	}
}

func TestNetworkSpares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := simulatedPair(t, NetworkConfig{
			Faults: Faults{Loss: 0.3, Duplicate: 0.3, Reorder: 0.3, Corrupt: 0.3, Delay: time.Millisecond},
			Spare: func(raw []byte) bool {
				p, err := packet.Parse(raw)
				return err == nil && p.BTH().PSN()%2 == 0
			},
		})
		const packets = 1000
		sendAll(t, a, b, packets, 8)
		n.mu.Lock()
		if len(b.(*simulated).queue) != 0 {
			t.Error("spared packets are not delayed")
		}
		n.mu.Unlock()
		spared, others := 0, 0
		for _, psn := range drain(t, b) {
			switch {
			case psn%2 == 1:
				others++
			case int(psn) == 2*spared:
				spared++
			default:
				t.Fatalf("packet %d arrived, want %d", psn, 2*spared)
			}
		}
		if spared != packets/2 || others > packets/2 || n.Statistics().Lost == 0 {
			t.Errorf("%d spared packets arrived, and %d others", spared, others)
		}
	})
}

func TestNetworkRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const packets, payload = 100, 4096
		n, a, b := simulatedPair(t, NetworkConfig{Faults: Faults{Rate: 1 << 20}})
		start := time.Now()
		sendAll(t, a, b, packets, payload)
		collect(t, b, packets)
		bytes := packets * packet.Len(packet.RCSendOnly, payload)
		want := transferTime(bytes, 1<<20)
		if d := time.Since(start); d < want-time.Millisecond || d > want+time.Millisecond {
			t.Errorf("took %v, not %v", d, want)
		}
		n.SetFaults(Faults{Rate: 1 << 10})
		sendAll(t, a, b, 2000, payload)
		if s := n.Statistics(); s.Overflowed < 900 || s.Overflowed > 1100 {
			t.Errorf("%d of 2000 found the queue full", s.Overflowed)
		}
	})
}

func TestNetworkOverflow(t *testing.T) {
	_, a, b := simulatedPair(t, NetworkConfig{Buffer: 10000})
	sendAll(t, a, b, 20, 984) // 1000 bytes
	if c := b.Counters(); c.Dropped[DropOverflow] != 10 {
		t.Errorf("%+v", c)
	}
	collect(t, b, 10)
}

func TestNetworkFilter(t *testing.T) {
	n, a, b := simulatedPair(t, NetworkConfig{})
	n.SetFilter(func(src, dst netip.Addr, raw []byte) bool {
		p, err := packet.Parse(raw)
		return err == nil && src == a.Addr() && dst == b.Addr() && p.BTH().PSN() != 1
	})
	sendAll(t, a, b, 3, 8)
	got := collect(t, b, 2)
	if bytes.Equal(got[0].Data, got[1].Data) || n.Statistics().Filtered != 1 {
		t.Errorf("%+v", n.Statistics())
	}
	n.SetFilter(nil)
	e := new(Egress)
	fill(t, e, netip.MustParseAddr("fd00::3"), 1, 8, 0)
	if err := a.Send(e); err != nil {
		t.Error(err)
	}
	if s := n.Statistics(); s.Unreachable != 1 {
		t.Errorf("%+v", s)
	}
}

func TestNetworkErrors(t *testing.T) {
	n, a, b := simulatedPair(t, NetworkConfig{MTU: 1024})
	if _, err := n.Open(a.Addr()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("an address twice: %v", err)
	}
	if _, err := n.Open(netip.Addr{}); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("no address: %v", err)
	}
	e := new(Egress)
	fill(t, e, b.Addr(), 2, 4096, 0)
	fill(t, e, b.Addr(), 1, 1024, 0)
	fill(t, e, netip.MustParseAddr("10.0.0.1"), 3, 64, 0)
	err := a.Send(e)
	var se *SendError
	if !errors.As(err, &se) || !errors.Is(err, syscall.EMSGSIZE) || se.Packets != 5 || se.To != b.Addr() {
		t.Errorf("too long: %v", err)
	}
	collect(t, b, 1)
	done := make(chan error)
	go func() { done <- b.Receive(NewIngress()) }()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Receive: %v", err)
	}
	fill(t, e, a.Addr(), 1, 64, 0)
	if err := b.Send(e); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Send: %v", err)
	}
	if l, err := n.Open(b.Addr()); err != nil {
		t.Errorf("after Close: %v", err)
	} else {
		l.Close()
	}
}

func TestNetworkNoAllocations(t *testing.T) {
	_, a, b := simulatedPair(t, NetworkConfig{})
	e, in := new(Egress), NewIngress()
	data := make([]byte, packet.Len(packet.RCSendOnly, 1024))
	if _, err := packet.Build(data, packet.RCSendOnly, 1024); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		e.Add(Destination{Addr: b.Addr()}, data, len(data))
		if err := a.Send(e); err != nil {
			t.Fatal(err)
		}
		if err := b.Receive(in); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
