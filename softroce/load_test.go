// When the packets for an address are spread over its receivers, and when they are gathered.

package softroce

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestLook checks which load of the first receiver spreads the packets.
func TestLook(t *testing.T) {
	const both = 1<<0 | 1<<1
	for name, c := range map[string]struct {
		received int // the receiver's place
		ago      time.Duration
		waited   time.Duration
		shards   uint64 // by queue pair number; all have one sender
		from     string // the sender
		spreads  bool
		measured bool // a new measurement begins
	}{
		"busy":                 {0, loadFor, 0, both, "127.0.0.1", true, true},
		"it waits sometimes":   {0, loadFor, loadFor / waitsSeldom / 2, both, "127.0.0.1", true, true},
		"it waits too long":    {0, loadFor, loadFor / 2, both, "127.0.0.1", false, true},
		"one shard":            {0, loadFor, 0, 1 << 1, "127.0.0.1", false, true},
		"too early":            {0, loadFor / 100, 0, both, "127.0.0.1", false, false},
		"others have received": {0, 10 * loadFor, 0, both, "127.0.0.1", false, true},
		"not the first":        {1, loadFor, 0, both, "127.0.0.1", false, false},
		"another host":         {0, loadFor, 0, both, "192.0.2.1", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := openShards(t, 2)
			r := d.receivers[c.received]
			raw := make([]byte, packet.Len(packet.RCSendOnly, 0))
			(*packet.BTH)(raw).SetDestQPN(1)
			look := func() (measured bool) {
				r.lock()
				defer r.takeOver()
				defer r.mu.Unlock()
				r.in.Packets = append(r.in.Packets[:0], link.Packet{Data: raw, Src: netip.MustParseAddr(c.from)})
				r.load = load{began: time.Now().Add(-c.ago), waited: c.waited, shards: c.shards}
				r.shards.look(r)
				return time.Since(r.load.began) < c.ago && r.load.waited == 0 && r.load.shards == 0
			}
			if measured := look(); measured != c.measured {
				t.Errorf("a new measurement: %v, want %v", measured, c.measured)
			}
			if c.spreads {
				waitFor(t, "the packets are spread", func() bool {
					look() // once more, if the test had to wait for a processor
					return r.shards.spread.Load()
				})
				return
			}
			time.Sleep(5 * time.Millisecond)
			if r.shards.spread.Load() {
				t.Error("the packets are spread")
			}
		})
	}
}

// TestGather checks that packets which are spread are gathered when a goroutine wants to lead, but not at once.
func TestGather(t *testing.T) {
	d := openShards(t, 2)
	s := d.receivers[0].shards
	s.set(true)
	s.set(false)
	if !s.spread.Load() {
		t.Error("the packets are gathered at once")
	}
	created, err := d.CreateCQ(verbs.ProviderCQInit{Depth: 1, Wake: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	c := created.(*cq)
	waitFor(t, "the packets are gathered", func() bool {
		d.traffic.lightRounds.Store(lightEnough)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		c.Sleep(ctx, t.Context(), nil, nil)
		return !s.spread.Load()
	})
	if c.Close(); d.lastWoke.Load() != d.receivers[0] {
		t.Error("leaders do not receive where the packets arrive")
	}
	if took := time.Since(s.switched); took > settled {
		t.Errorf("the switch was %v ago", took)
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

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 5 s: %s: no", what)
		}
	}
}
