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
	polls := func(p *patience, waits int, came bool) (n int) {
		for range waits {
			if p.polls(now) {
				n++
				p.polled(came)
			}
			now = now.Add(wait)
		}
		return n
	}
	var p, other patience
	if n := polls(&p, 1000, true); n != 1000 {
		t.Errorf("%d of 1000 waits poll while packets come soon", n)
	}
	if polls(&p, 1000, false); p.polls(now) {
		t.Error("waits poll after 1000 in vain")
	}
	for range 50_000 { // 2.5 s
		if p.polls(now) && p.vain >= other.vain && !other.polls(now) {
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

// TestPollUntil checks what ends the polling of a goroutine: packets, the time, another goroutine that wants to receive,
// and an interrupt, which the next Receive reports, too.
func TestPollUntil(t *testing.T) {
	l, err := link.Open(netip.MustParseAddr("127.77.0.1"), link.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := &receiver{link: l, in: link.NewIngress(), try: link.Trying(l)}
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
		timer := time.AfterFunc(testkit.Moment, stop)
		err := r.pollUntil(long)
		timer.Stop()
		if (err == nil) != (name == "a packet") || err != nil && !errors.Is(err, link.ErrInterrupted) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "an interrupt" {
			if err := l.Receive(r.in); !errors.Is(err, link.ErrInterrupted) || link.Interrupted(l) {
				t.Errorf("the next Receive returned %v; interrupted: %v", err, link.Interrupted(l))
			}
		}
	}
	if err := r.pollUntil(time.Now().Add(time.Millisecond)); !errors.Is(err, link.ErrInterrupted) {
		t.Errorf("after its time: %v", err)
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
