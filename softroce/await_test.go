package softroce

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
)

// TestPatience checks that polling in vain becomes rare, that waits of two receivers then poll at the same times, and that
// success brings it back.
func TestPatience(t *testing.T) {
	const wait = 25 * time.Microsecond
	now := time.Unix(0, 1<<40)
	poll := func(p *patience, came bool) (polled bool) {
		p.poll(now, func() (bool, bool) { // once, because the time has passed long ago
			polled = true
			return came, false
		})
		return polled
	}
	polls := func(p *patience, waits int, came bool) (n int) {
		for range waits {
			if poll(p, came) {
				n++
			}
			now = now.Add(wait)
		}
		return n
	}
	would := func(p patience) bool { return poll(&p, true) }
	var p, other patience
	if n := polls(&p, 1000, true); n != 1000 {
		t.Errorf("%d of 1000 waits poll while packets come soon", n)
	}
	if polls(&p, 1000, false); would(p) {
		t.Error("waits poll after 1000 in vain")
	}
	for range 50_000 { // 2.5 s
		if would(p) && p.vain >= other.vain && !would(other) {
			t.Fatalf("two receivers poll at different times, %v and %v", p, other)
		}
		polls(&p, 1, false)
		polls(&other, 1, false)
	}
	if n := polls(&p, 100_000, false); n > 200 {
		t.Errorf("%d of 100,000 waits poll in vain", n)
	}
	if polls(&p, 100_000, true); p.vain > 0 {
		t.Errorf("%v after packets came soon for 2.5 s", p)
	}
}

// TestPolling checks what ends the polling of a receiver: a packet, and an interrupt, which the wait then reports.
func TestPolling(t *testing.T) {
	l, err := link.Open(netip.MustParseAddr("127.77.0.1"), link.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := &receiver{d: new(device), link: l, in: link.NewIngress(), try: link.Trying(l), pollsFirst: true}
	if r.try == nil {
		t.Skip("links must wait on this system")
	}
	long := testkit.Deadline()
	for name, stop := range map[string]func(){
		"a packet": func() {
			var e link.Egress
			e.Add(link.Destination{Addr: l.Addr()}, make([]byte, 64), 64)
			if err := l.Send(&e); err != nil {
				t.Error(err)
			}
		},
		"an interrupt": l.Interrupt,
	} {
		r.patience.vain = 2
		timer := time.AfterFunc(testkit.Moment, stop)
		err := r.awaitFrom(long, r.in)
		timer.Stop()
		came := name == "a packet"
		if came != (err == nil) || err != nil && !errors.Is(err, link.ErrInterrupted) || link.Interrupted(l) || came != (r.patience.vain == 1) {
			t.Errorf("%s: %v; interrupted still: %v; %+v", name, err, link.Interrupted(l), r.patience)
		}
	}
	if time.Now().After(long) {
		t.Error("only the time has ended the polling")
	}
}

// TestYields checks that a goroutine that polls in vain yields, and that yields that take long become rare until they take
// a short time again.
func TestYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var y yields
		yields := func(calls int, yield func()) (n int) {
			for range calls {
				y.after(false, func() { n++; yield() })
			}
			return n
		}
		cheap, costly := func() {}, func() { time.Sleep(2 * dear) }
		if n := yields(100*yieldAfter, cheap); n != 100 {
			t.Errorf("%d yields in %d polls in vain, want 100", n, 100*yieldAfter)
		}
		if n := yields(1000*yieldAfter, costly); n > 2*rarest {
			t.Errorf("%d yields that take long, in %d polls", n, 1000*yieldAfter)
		}
		yields(rarest*yieldAfter<<rarest, cheap)
		if n := yields(100*yieldAfter, cheap); n != 100 {
			t.Errorf("%d yields in %d polls after the processor is free again, want 100", n, 100*yieldAfter)
		}
		for range 10 {
			yields(yieldAfter-1, func() { t.Error("a goroutine that receives yields") })
			y.after(true, cheap)
		}
	})
}
