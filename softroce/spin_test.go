package softroce_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// spins skips the test if goroutines cannot receive between polls on this system.
func spins(t testing.TB, dev *verbs.Device) {
	t.Helper()
	if !newCQ(t, dev).Spins() {
		t.Skip("links must wait on this system")
	}
}

// newCQ returns a CQ of its own channel. It is closed when the test ends, if not before.
func newCQ(t testing.TB, dev *verbs.Device) *verbs.CQ {
	t.Helper()
	ch, err := dev.CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(verbs.CQInit{Depth: 4, Channel: ch})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cq.Close(); ch.Close() })
	return cq
}

// spinOn polls an idle CQ in a goroutine, and returns when that goroutine receives for the device.
func spinOn(ctx, owner context.Context, t *testing.T, dev *verbs.Device, cq *verbs.CQ) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := cq.WaitFor(ctx, make([]verbs.WC, 1), verbs.WaitOptions{Spin: time.Hour, Owner: owner})
		done <- err
	}()
	before := softroce.Led(dev)
	testkit.Until(t, "goroutine that polls and receives", func() bool { return softroce.Led(dev) >= before+10 })
	return done
}

// TestSpinningRoundTrips plays ping-pong with both ends polling. The port's goroutine never receives meanwhile.
func TestSpinningRoundTrips(t *testing.T) {
	softroce.NeverLook(t)
	e := newEnds(t)
	e.ping.spin, e.pong.spin = time.Minute, time.Minute
	e.all.Go(func() { e.pong.echo(e.ctx) })
	for softroce.Led(e.x) == 0 { // at first the port's goroutine receives
		e.trips(t, 1)
	}
	before := softroce.Led(e.x)
	e.trips(t, 200)
	if n := softroce.Led(e.x) - before; n < 200 {
		t.Errorf("in 200 round trips the goroutine that polls received %d times", n)
	}
	if n := testkit.Allocations(t, 20, func() { e.trips(t, 1) }); n > 0 {
		t.Errorf("a round trip makes %v allocations", n)
	}
}

// TestAfterSpinning checks that a goroutine that polls gets a message that comes after the port's goroutine has taken over,
// and that the device works on when nobody polls any more.
func TestAfterSpinning(t *testing.T) {
	e := newEnds(t)
	e.ping.spin, e.pong.spin = time.Minute, time.Minute
	e.all.Go(func() { e.pong.echo(e.ctx) })
	e.trips(t, 50)
	testkit.Until(t, "port's goroutine that receives again", func() bool { return softroce.Receiving(e.x) })
	e.trips(t, 1)
	e.ping.spin = 0
	e.trips(t, 50)
	e.ping.spin = time.Nanosecond // sleeps after a poll
	e.trips(t, 50)
}

// TestSpinEnds after its time, with either context, and with Close. Afterwards waiting works as before.
func TestSpinEnds(t *testing.T) {
	p := newPair(t)
	spins(t, p.x)
	for name, end := range map[string]func(t *testing.T){
		"time": func(t *testing.T) {
			cq, before := newCQ(t, p.x), softroce.Led(p.x)
			testkit.Until(t, "spin that receives", func() bool { // none does before the port's goroutine leaves
				n, err := cq.WaitFor(p.ctx, make([]verbs.WC, 1), verbs.WaitOptions{Spin: testkit.Moment, NoSleep: true})
				if n != 0 || err != nil {
					t.Fatalf("%d completions, %v", n, err)
				}
				return softroce.Led(p.x) > before
			})
		},
		"time, then sleep": func(t *testing.T) {
			_, err := newCQ(t, p.x).WaitFor(testkit.Expiring(t), make([]verbs.WC, 1), verbs.WaitOptions{Spin: 5 * time.Millisecond})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		},
		"context": func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			done := spinOn(ctx, t.Context(), t, p.x, newCQ(t, p.x))
			cancel()
			ended(t, done, context.Canceled)
		},
		"second context": func(t *testing.T) {
			owner, cancel := context.WithCancel(t.Context())
			done := spinOn(t.Context(), owner, t, p.x, newCQ(t, p.x))
			cancel()
			ended(t, done, context.Canceled)
		},
		"Close": func(t *testing.T) {
			cq := newCQ(t, p.x)
			done := spinOn(t.Context(), t.Context(), t, p.x, cq)
			if err := cq.Close(); err != nil {
				t.Fatal(err)
			}
			ended(t, done, net.ErrClosed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				end(t)
				p.trip(t)
			}
			p.untilLed(t)
		})
	}
}

// TestSpinBesideSleepers: while a goroutine polls an idle CQ, others sleep on their CQs, one of them
// as the leader before. Their messages arrive, READs are answered, and a stream moves.
func TestSpinBesideSleepers(t *testing.T) {
	p := newPair(t)
	spins(t, p.x)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	led := p.waitLed(ctx, t, newCQ(t, p.x))
	idle := newCQ(t, p.x)
	done := spinOn(ctx, ctx, t, p.x, idle)
	for range 60 {
		p.trip(t)
	}
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		newStream(t, p.x, p.y, op, mib).run(t, 20)
		newStream(t, p.y, p.x, op, mib).run(t, 20)
	}
	other, stop := context.WithCancel(ctx)
	second := spinOn(other, other, t, p.x, newCQ(t, p.x))
	for range 60 {
		p.trip(t)
	}
	stop()
	ended(t, second, context.Canceled)
	p.trip(t)
	cancel()
	ended(t, done, context.Canceled)
	ended(t, led, context.Canceled)
	for range 20 {
		p.trip(t)
	}
}

// TestLeavingSpinnerIsReplaced checks that a device answers READs and wakes a sleeping goroutine after the last goroutine
// that polled there has stopped without notice.
func TestLeavingSpinnerIsReplaced(t *testing.T) {
	p := newPair(t)
	spins(t, p.x)
	idle, s := newCQ(t, p.x), newPatientStream(t, p.y, p.x, verbs.OpRDMARead, 4096)
	for range 20 {
		_, err := idle.WaitFor(p.ctx, make([]verbs.WC, 1), verbs.WaitOptions{Spin: 3 * time.Millisecond, NoSleep: true})
		if err != nil {
			t.Fatal(err)
		}
		s.run(t, 1)
		p.trip(t)
	}
}

// TestManySpinners lets many goroutines poll on two devices with two ports each, each on its own CQ.
// Some sleep now and then.
func TestManySpinners(t *testing.T) {
	const conns, trips = 4, 100
	x, y := openSoft(t, softroce.TwoPortsName), openSoft(t, softroce.TwoPortsName)
	spins(t, x)
	ctx := testkit.Context(t)
	failed := make(chan error, 2*conns)
	var all sync.WaitGroup
	for i := range conns {
		index := 1 + i%2
		c, s := connect(t, x, y, rc.Config{GIDIndex: &index})
		ping, pong := newPinger(t, c, 8), newPinger(t, s, 8)
		ping.spin = []time.Duration{time.Minute, time.Microsecond, 50 * time.Microsecond, 0}[i]
		pong.spin = ping.spin
		all.Go(func() {
			for range trips {
				if err := ping.trip(ctx); err != nil {
					failed <- err
					return
				}
				runtime.Gosched()
			}
		})
		all.Go(func() {
			for range trips {
				if err := errors.Join(pong.recv(ctx), pong.send()); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
}

// TestSpinsEndIsSeen checks that nobody waits for the next look of the port's goroutine, which comes after one
// to two milliseconds, if a spin has ended and another wait needs packets. Here that look never comes.
func TestSpinsEndIsSeen(t *testing.T) {
	for name, trip := range spinsThatEnd() {
		t.Run(name, func(t *testing.T) {
			softroce.NeverLook(t)
			e := newEnds(t)
			e.all.Go(func() { e.pong.echo(e.ctx) })
			trip := trip(t, e)
			for i := range 60 {
				if err := trip(); err != nil {
					t.Fatal("round trip", i, err)
				}
			}
		})
	}
}

// spinsThatEnd returns kinds of round trips in which a goroutine stops polling, or leading, before packets come.
func spinsThatEnd() map[string]func(testing.TB, *ends) func() error {
	return map[string]func(testing.TB, *ends) func() error{
		"sleep after a spin": func(_ testing.TB, e *ends) func() error {
			e.ping.spin = time.Nanosecond
			return func() error { return e.ping.trip(e.ctx) }
		},
		"sleep on another CQ": func(tb testing.TB, e *ends) func() error {
			idle, wcs := newCQ(tb, e.x), make([]verbs.WC, 1)
			return func() error {
				if _, err := idle.WaitFor(e.ctx, wcs, verbs.WaitOptions{NoSleep: true, Spin: 1}); err != nil {
					return err
				}
				return e.ping.trip(e.ctx)
			}
		},
		"another goroutine sleeps, too": func(tb testing.TB, e *ends) func() error {
			idle := newCQ(tb, e.x)
			return func() error {
				ctx, cancel := context.WithCancel(e.ctx)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = idle.Wait(ctx, make([]verbs.WC, 1))
				}()
				err := e.ping.trip(e.ctx)
				cancel()
				if <-done; err != nil {
					return err
				}
				return e.ping.trip(e.ctx)
			}
		},
		"a goroutine polls now and then": func(tb testing.TB, e *ends) func() error {
			e.pollNowAndThen(newCQ(tb, e.x))
			return func() error { return e.ping.trip(e.ctx) }
		},
	}
}

// BenchmarkSpinsEnd times the round trips of TestSpinsEndIsSeen. A look of the port's goroutine would take a millisecond
// or two.
func BenchmarkSpinsEnd(b *testing.B) {
	for name, trip := range spinsThatEnd() {
		b.Run(name, func(b *testing.B) {
			e := newEnds(b)
			e.all.Go(func() { e.pong.echo(e.ctx) })
			trip := trip(b, e)
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := trip(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "median-ns")
		})
	}
}

// ends are two connected devices. When the test ends, ctx ends and all is awaited.
type ends struct {
	x          *verbs.Device // of ping
	ping, pong *pinger
	ctx        context.Context
	all        sync.WaitGroup
}

func newEnds(tb testing.TB) *ends {
	e := &ends{x: openSoft(tb, "soft0")}
	spins(tb, e.x)
	c, s := connect(tb, e.x, openSoft(tb, "soft0"), rc.Config{})
	e.ping, e.pong = newPinger(tb, c, 8), newPinger(tb, s, 8)
	var cancel context.CancelFunc
	e.ctx, cancel = context.WithCancel(limited(tb))
	tb.Cleanup(func() { cancel(); e.all.Wait() })
	return e
}

// trips plays n round trips.
func (e *ends) trips(tb testing.TB, n int) {
	tb.Helper()
	for i := range n {
		if err := e.ping.trip(e.ctx); err != nil {
			tb.Fatal("round trip", i, err)
		}
	}
}

// pollNowAndThen polls an idle CQ in a goroutine, more often than the port's goroutine looks.
func (e *ends) pollNowAndThen(idle *verbs.CQ) {
	e.all.Go(func() {
		for e.ctx.Err() == nil {
			_, _ = idle.WaitFor(e.ctx, make([]verbs.WC, 1), verbs.WaitOptions{NoSleep: true, Spin: 1})
			for next := time.Now().Add(700 * time.Microsecond); time.Now().Before(next); { // time.Sleep takes a millisecond
				runtime.Gosched()
			}
		}
	})
}
