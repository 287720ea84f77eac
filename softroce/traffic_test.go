// When traffic is light, so that a waiting goroutine receives itself, and when it is heavy.

package softroce

import (
	"testing"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// TestTraffic gives the decision what is sent and received for many messages of one kind.
func TestTraffic(t *testing.T) {
	for name, c := range map[string]struct {
		message, burst int // bytes that come before a completion, and those of each receive
		sends          int // bytes sent for each message
		attended       bool
		light, bulk    bool
	}{
		"8 bytes":                        {64, 64, 64, false, true, false},
		"ACKs of WRITEs of 4 MiB":        {32, 32, 4 * mib, false, true, true},
		"READs of 256 KiB":               {256 * kib, 64 * kib, 64, false, true, false},
		"READs of 1 MiB, in small parts": {mib + 30*kib, 4 * kib, 64, false, true, false},
		"READs of 2 MiB":                 {2 * mib, 64 * kib, 64, false, false, false},
		"READs of 2 MiB, in small parts": {2 * mib, 4 * kib, 64, false, false, false},
		"64 KiB":                         {64 * kib, 64 * kib, 66 * kib, false, true, false},
		"attended, 8 bytes":              {64, 64, 64, true, true, false},
		"attended, 64 KiB":               {64 * kib, 64 * kib, 64, true, false, false},
		"attended, WRITEs of 64 KiB":     {32, 32, 66 * kib, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := traffic{attended: c.attended}
			for range lightEnough {
				tr.received(2*kib, 2*kib, false)
			}
			if tr.light() {
				t.Error("the parts of a long message are light")
			}
			for range 2 * lightEnough {
				tr.sent(c.sends)
				for since := c.burst; since < c.message; since += c.burst {
					tr.received(c.burst, since, false)
				}
				tr.received(c.burst, c.message, true)
			}
			if tr.light() != c.light || tr.bulk.Load() != c.bulk {
				t.Errorf("light %v, sends much %v; want %v and %v", tr.light(), tr.bulk.Load(), c.light, c.bulk)
			}
			for range lightEnough - 2 {
				tr.received(64, 64, true)
			}
			if !c.light && tr.light() {
				t.Error("light after a few small messages")
			}
			tr.received(64, 64, true)
			if tr.received(64, 64, true); !tr.light() {
				t.Error("heavy after many small messages")
			}
		})
	}
}

// TestStreams says when traffic is a stream, which nobody polls for: much in one direction, in large parts.
func TestStreams(t *testing.T) {
	for name, c := range map[string]struct {
		in, out int // bytes of each receive, and of what is sent then
		stream  bool
	}{
		"WRITEs arrive":       {64 * kib, 64, true},
		"WRITEs leave":        {64, 256 * kib, true},
		"an echo of 64 KiB":   {66 * kib, 66 * kib, false},
		"requests of 8 bytes": {64, 64, false},
		"READs of 4 KiB":      {4 * kib, 32, false},
	} {
		var s streams
		for range 2 * streamReceives {
			s.moved(c.in, 0)
			s.moved(0, c.out)
		}
		if s.Load() != c.stream {
			t.Errorf("%s: a stream %v", name, s.Load())
		}
		for range streamReceives {
			s.moved(64, 0)
			s.moved(0, 64)
		}
		if s.Load() {
			t.Errorf("%s: still a stream after %d small receives", name, streamReceives)
		}
	}
}

// TestHeavyTrafficIsNotLed gives a receiver the packets of long READs, and then small messages.
func TestHeavyTrafficIsNotLed(t *testing.T) {
	opened, err := provider{}.Open(loopbackName)
	if err != nil {
		t.Fatal(err)
	}
	d := opened.(*device)
	defer d.Close()
	created, err := d.CreateCQ(verbs.ProviderCQInit{Depth: 1, Wake: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	c, r := created.(*cq), d.receivers[0]
	defer c.Close()
	d.lastWoke.Store(r)
	receive := func(packets, size int, woke bool) {
		r.lock()
		defer r.takeOver()
		defer r.mu.Unlock()
		p, err := packet.Build(make([]byte, packet.Len(packet.RCSendOnly, size)), packet.RCSendOnly, size)
		if err != nil {
			t.Fatal(err)
		}
		r.in.Packets = r.in.Packets[:0]
		for range packets { // no queue pair has the number 0
			r.in.Packets = append(r.in.Packets, link.Packet{Data: p.Bytes(), Src: r.link.Addr(), Dst: r.link.Addr()})
		}
		d.woke.Store(woke)
		r.process()
		d.woke.Store(false)
	}
	leads := func() bool {
		c.WakeSleeper() // if it leads, it stops at once
		return c.lead(t.Context(), t.Context())
	}
	for range 3 {
		for range lightEnough {
			receive(1, 8, true)
		}
		if !leads() {
			t.Error("nobody leads after small messages")
		}
		for i := range 31 {
			receive(16, 4096, false)
			if i == 15 && !leads() {
				t.Error("nobody leads after the first half of a READ of 2 MiB")
			}
		}
		if receive(16, 4096, true); leads() {
			t.Error("a goroutine leads after a READ of 2 MiB")
		}
	}
}
