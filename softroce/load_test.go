// When the packets for an address are spread over its receivers, and when they are gathered.

package softroce

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// packetFrom returns a packet to queue pair 1.
func packetFrom(addr string) link.Packet {
	raw := make([]byte, packet.Len(packet.RCSendOnly, 0))
	(*packet.BTH)(raw).SetDestQPN(1)
	return link.Packet{Data: raw, Src: netip.MustParseAddr(addr)}
}

// TestLook checks which load of the first receiver spreads the packets.
func TestLook(t *testing.T) {
	const both = 1<<0 | 1<<1
	d := openShards(t, 2)
	began := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		took     time.Duration
		waited   time.Duration
		shards   uint64 // by queue pair number; all have one sender
		from     string // the sender
		spreads  bool
		measured bool // a new measurement begins
	}{
		"busy":                 {loadFor, 0, both, "127.0.0.1", true, true},
		"it waits sometimes":   {loadFor, loadFor / waitsSeldom / 2, both, "127.0.0.1", true, true},
		"it waits too long":    {loadFor, loadFor / waitsSeldom, both, "127.0.0.1", false, true},
		"one shard":            {loadFor, 0, 1 << 1, "127.0.0.1", false, true},
		"too early":            {loadFor - 1, 0, both, "127.0.0.1", false, false},
		"late":                 {2*loadFor - 1, 0, both, "127.0.0.1", true, true},
		"others have received": {2 * loadFor, 0, both, "127.0.0.1", false, true},
		"another host":         {loadFor, 0, both, "192.0.2.1", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, now := packetFrom(c.from), began.Add(c.took)
			before := load{began: began, waited: c.waited, shards: c.shards}
			after := before
			if spreads := d.receivers[0].shards.measure(&after, &p, now); spreads != c.spreads {
				t.Errorf("the packets are spread: %v, want %v", spreads, c.spreads)
			}
			if c.measured && after != (load{began: now}) {
				t.Errorf("the next measurement begins with %+v", after)
			}
			before.shards |= 1 << 1
			before.addresses |= 1 << 1
			if !c.measured && after != before {
				t.Errorf("the measurement goes on with %+v, want %+v", after, before)
			}
		})
	}
}

// TestLookSpreads checks that packets which arrive at a busy first receiver are spread, and that no other receiver looks.
func TestLookSpreads(t *testing.T) {
	d := openShards(t, 2)
	s := d.receivers[0].shards
	busy := func(r *receiver, then func()) {
		r.lock()
		defer r.Call()
		defer r.unlock()
		r.load = load{began: time.Now().Add(-loadFor), shards: 1 << 0}
		then()
	}
	other := d.receivers[1]
	busy(other, func() {
		before := other.load
		other.in.Packets = append(other.in.Packets[:0], packetFrom("127.0.0.1"))
		if s.look(other); other.load != before {
			t.Error("another receiver measures its load")
		}
	})
	from, err := link.OpenLoopback(link.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	p, e := packetFrom("127.0.0.1"), new(link.Egress)
	testkit.Until(t, "switch", func() bool { // if the packet has to wait for a processor, the measurement is too long
		busy(s.first, func() {})
		e.Add(link.Destination{Addr: s.first.link.Addr()}, p.Data, len(p.Data))
		if err := from.Send(e); err != nil {
			t.Fatal(err)
		}
		return s.spread.Load()
	})
}

// TestGather checks that packets which are spread are gathered when a goroutine wants to lead, but not at once.
func TestGather(t *testing.T) {
	d := openShards(t, 2)
	s := d.receivers[0].shards
	switched := func(at time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.switched = at
	}
	s.set(true)
	if !s.spread.Load() || s.switched.IsZero() {
		t.Fatal("the packets are not spread")
	}
	created, err := d.CreateCQ(verbs.ProviderCQInit{Depth: 1, Wake: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	c := created.(*cq)
	sleep := func() { // for a moment
		c.Sleep(testkit.Expiring(t), t.Context(), nil, nil)
	}
	switched(time.Now().Add(time.Hour)) // a moment ago, however long this test waits for a processor
	if sleep(); !s.spread.Load() {
		t.Error("the packets are gathered at once")
	}
	before := time.Now().Add(-settled)
	switched(before)
	d.traffic.much.Store(true)
	if sleep(); !s.spread.Load() {
		t.Error("the packets are gathered although much is moved")
	}
	d.traffic.much.Store(false)
	if sleep(); s.spread.Load() {
		t.Error("the packets are not gathered")
	}
	if c.Close(); d.lastWoke.Load() != d.receivers[0] {
		t.Error("leaders do not receive where the packets arrive")
	}
	if !s.switched.After(before) {
		t.Error("the switch is not noted")
	}
}

// openShards opens a device with n receivers.
func openShards(t *testing.T, n int) *device {
	SetShards(t, n)
	opened, err := provider{}.Open(loopbackName)
	if err != nil {
		t.Fatal(err)
	}
	d := opened.(*device)
	t.Cleanup(func() { d.Close() })
	if d.receivers[0].shards == nil {
		t.Skip(noShards)
	}
	return d
}
