package softroce

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
)

// TestHeard lets datagrams come to a socket, in simulated time, and a receiver take two at a time. All that arrived until
// the time that heard gives must be received. The receiver must not be further behind than twice what the socket
// holds, even if it never finds the socket empty.
func TestHeard(t *testing.T) {
	type datagram struct {
		at   time.Duration
		size int
	}
	const most = 64 << 10
	for name, always := range map[string]int{"sometimes empty": 0, "never empty": 3} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			h := heard{buffer: 1 << 20}
			now, queue, queued, total, emptied := time.Duration(0), []datagram(nil), 0, 0, 0
			totals := map[time.Duration]int{} // received when a receive ended
			arrive := func() {
				for n := max(rng.IntN(5)-1, always-len(queue)); n > 0 && queued+most <= h.buffer; n-- {
					now++
					d := datagram{now, 1 + rng.IntN(most)}
					queue, queued = append(queue, d), queued+d.size
				}
				now++
			}
			for range 10_000 {
				arrive()
				n := min(len(queue), 2)
				if n == 0 {
					continue
				}
				bytes := 0
				for _, d := range queue[:n] {
					bytes += d.size
				}
				if queue = queue[n:]; n < 2 {
					emptied++
				}
				queued, total = queued-bytes, total+bytes
				now++
				totals[now] = total
				ended := now
				arrive() // while the packets are processed
				h.received(bytes, ended, n < 2)
				until := time.Duration(h.until.Load())
				if len(queue) > 0 && queue[0].at <= until {
					t.Fatalf("all until %d is received, but a datagram of %d is not", until, queue[0].at)
				}
				if behind := total - totals[until]; behind > 2*h.buffer+2*most {
					t.Fatalf("the receiver seems to be %d bytes behind", behind)
				}
			}
			if (emptied == 0) != (always > 0) || h.until.Load() == 0 {
				t.Errorf("the receiver has found the socket empty %d times, and all until %d is received", emptied, h.until.Load())
			}
		})
	}
}

// TestUnread receives by hand what another socket sends, and checks what may lie unread.
func TestUnread(t *testing.T) {
	opened, err := smallBuffer{}.Open(SmallBufferName)
	if err != nil {
		t.Fatal(err)
	}
	d := opened.(*device)
	defer d.Close()
	from, err := link.OpenLoopback(link.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	r := d.receivers[0]
	r.lock()
	defer r.unlock()
	if r.try == nil {
		t.Skip("on this system nobody knows what lies unread")
	}
	path := &transport.Path{Src: r.link.Addr(), Dst: from.Addr(), Link: d.ports[0]}
	want := func(since time.Duration, unread bool, when string) {
		t.Helper()
		if d.unread(path, since) != unread {
			t.Errorf("%s: something from after %v is unread: %v, want %v", when, since, !unread, unread)
		}
	}
	send := func(bytes int) {
		var e link.Egress
		e.Add(link.Destination{Addr: r.link.Addr()}, make([]byte, bytes), min(bytes, 4<<10))
		if err := from.Send(&e); err != nil {
			t.Fatal(err)
		}
	}
	receive := func() {
		if err := r.take(); err != nil {
			t.Fatal(err)
		}
	}
	first := d.now()
	want(first, false, "nothing has come")
	send(64)
	want(first, true, "one packet has come")
	receive()
	want(first, false, "it is received")
	second := d.now()
	send(64)
	receive()
	send(64)
	want(first, false, "a third packet has come")
	want(second, true, "a third packet has come")

	// A stream: the receiver takes two datagrams at a time, and more are there.
	const burst = 60 << 10
	receive()
	send(burst)
	receive()
	began, taken := d.now(), 0
	for range 3 {
		send(burst)
	}
	for ; d.unread(path, began); taken += 2 * burst {
		if taken > 3*r.heard.buffer {
			t.Fatalf("still unread after %d bytes", taken)
		}
		receive()
		send(burst)
		send(burst)
	}
	if !link.Unread(r.link) || taken < r.heard.buffer {
		t.Errorf("nothing is unread after %d bytes, less than the socket can hold", taken)
	}
}
