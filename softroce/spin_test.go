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
func spinOn(ctx context.Context, t *testing.T, dev *verbs.Device, cq *verbs.CQ) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := cq.WaitFor(ctx, make([]verbs.WC, 1), verbs.WaitOptions{Spin: time.Hour})
		done <- err
	}()
	before := softroce.Led(dev)
	for range 10_000 {
		if softroce.Led(dev) >= before+10 {
			return done
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the goroutine that polls does not receive")
	return nil
}

// TestSpinningRoundTrips plays ping-pong with both ends polling. Then it checks that a spinning goroutine
// gets a message that comes late, and that the device works on when nobody spins any more.
func TestSpinningRoundTrips(t *testing.T) {
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	spins(t, x)
	c, s := connect(t, x, y, rc.Config{})
	ping, pong := newPinger(t, c, 8), newPinger(t, s, 8)
	ping.spin, pong.spin = time.Minute, time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var echo sync.WaitGroup
	echo.Go(func() { pong.echo(ctx) })
	defer echo.Wait()
	defer cancel()
	trips := func(n int) {
		t.Helper()
		for i := range n {
			if err := ping.trip(ctx); err != nil {
				t.Fatal("round trip", i, err)
			}
		}
	}
	before := softroce.Led(x)
	trips(200)
	if n := softroce.Led(x) - before; n < 200 {
		t.Errorf("in 200 round trips the goroutine that polls received %d times", n)
	}
	time.Sleep(10 * time.Millisecond) // until the port's goroutine receives again
	trips(1)
	if n := testing.AllocsPerRun(20, func() { trips(20) }); n >= 1 {
		t.Errorf("20 round trips make %v allocations", n)
	}
	ping.spin = 0
	trips(50)
	ping.spin = time.Nanosecond // sleeps after a poll
	trips(50)
}

// TestSpinEnds after its time, with either context, and with Close. Afterwards waiting works as before.
func TestSpinEnds(t *testing.T) {
	p := newPair(t)
	spins(t, p.x)
	for name, end := range map[string]func(t *testing.T){
		"time": func(t *testing.T) {
			began, cq := time.Now(), newCQ(t, p.x)
			n, err := cq.WaitFor(t.Context(), make([]verbs.WC, 1), verbs.WaitOptions{Spin: 20 * time.Millisecond, NoSleep: true})
			if took := time.Since(began); n != 0 || err != nil || took < 20*time.Millisecond || took > 5*time.Second {
				t.Errorf("%d completions, %v after %v", n, err, took)
			}
		},
		"time, then sleep": func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := newCQ(t, p.x).WaitFor(ctx, make([]verbs.WC, 1), verbs.WaitOptions{Spin: 5 * time.Millisecond})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		},
		"context": func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			done := spinOn(ctx, t, p.x, newCQ(t, p.x))
			cancel()
			ended(t, done, context.Canceled)
		},
		"second context": func(t *testing.T) {
			owner, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			_, err := newCQ(t, p.x).WaitFor(t.Context(), make([]verbs.WC, 1), verbs.WaitOptions{Spin: time.Hour, Owner: owner})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		},
		"Close": func(t *testing.T) {
			cq := newCQ(t, p.x)
			done := spinOn(t.Context(), t, p.x, cq)
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
	done := spinOn(ctx, t, p.x, idle)
	for range 200 {
		p.trip(t)
	}
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		newStream(t, p.x, p.y, op, mib).run(t, 20)
		newStream(t, p.y, p.x, op, mib).run(t, 20)
	}
	other, stop := context.WithCancel(ctx)
	second := spinOn(other, t, p.x, newCQ(t, p.x))
	for range 200 {
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
	idle, s := newCQ(t, p.x), newStream(t, p.y, p.x, verbs.OpRDMARead, 4096)
	for range 20 {
		_, err := idle.WaitFor(t.Context(), make([]verbs.WC, 1), verbs.WaitOptions{Spin: 3 * time.Millisecond, NoSleep: true})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		s.run(t, 1)
		p.trip(t)
		// An ACK timeout is 67 ms, but the machine may be busy.
		if took := time.Since(begin); took > time.Second {
			t.Errorf("a READ and a round trip took %v after the goroutine that polled had left", took)
		}
	}
}

// TestManySpinners lets many goroutines poll on two devices with two ports each, each on its own CQ.
// Some sleep now and then.
func TestManySpinners(t *testing.T) {
	const conns, trips = 4, 100
	x, y := openSoft(t, softroce.TwoPortsName), openSoft(t, softroce.TwoPortsName)
	spins(t, x)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
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
// to two milliseconds, if a spin has ended and another wait needs packets.
func TestSpinsEndIsSeen(t *testing.T) {
	t.Run("sleep after a spin", func(t *testing.T) {
		e := newEnds(t)
		e.ping.spin = time.Nanosecond
		e.all.Go(func() { e.pong.echo(e.ctx) })
		e.quick(t, e.ping.trip)
	})
	t.Run("sleep on another CQ", func(t *testing.T) {
		e := newEnds(t)
		idle, wcs := newCQ(t, e.x), make([]verbs.WC, 1)
		e.all.Go(func() { e.pong.echo(e.ctx) })
		e.quick(t, func(ctx context.Context) error {
			if _, err := idle.WaitFor(ctx, wcs, verbs.WaitOptions{NoSleep: true, Spin: 1}); err != nil {
				return err
			}
			return e.ping.trip(ctx)
		})
	})
	t.Run("a goroutine polls now and then", func(t *testing.T) {
		e := newEnds(t)
		idle := newCQ(t, e.x)
		e.all.Go(func() {
			for e.ctx.Err() == nil {
				_, _ = idle.WaitFor(e.ctx, make([]verbs.WC, 1), verbs.WaitOptions{NoSleep: true, Spin: 1})
				for began := time.Now(); time.Since(began) < 700*time.Microsecond; { // time.Sleep takes a millisecond
					runtime.Gosched()
				}
			}
		})
		e.all.Go(func() { e.pong.echo(e.ctx) })
		e.quick(t, e.ping.trip)
	})
}

// ends are two connected devices. When the test ends, ctx ends and all is awaited.
type ends struct {
	x          *verbs.Device // of ping
	ping, pong *pinger
	ctx        context.Context
	all        sync.WaitGroup
}

func newEnds(t testing.TB) *ends {
	e := &ends{x: openSoft(t, "soft0")}
	spins(t, e.x)
	c, s := connect(t, e.x, openSoft(t, "soft0"), rc.Config{})
	e.ping, e.pong = newPinger(t, c, 8), newPinger(t, s, 8)
	var cancel context.CancelFunc
	e.ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(func() { cancel(); e.all.Wait() })
	return e
}

// quick checks that the median of 50 round trips is short, five times. It tries more often, because the
// machine may be busy.
func (e *ends) quick(t *testing.T, trip func(context.Context) error) {
	t.Helper()
	const limit = 300 * time.Microsecond
	var median time.Duration
	quick := 0
	for range 20 {
		took := make([]time.Duration, 50)
		for i := range took {
			began := time.Now()
			if err := trip(e.ctx); err != nil {
				t.Fatal("round trip", i, err)
			}
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		if median = took[len(took)/2]; median < limit {
			quick++
		}
		if quick == 5 {
			return
		}
	}
	t.Errorf("a round trip takes %v, want less than %v (%d medians were)", median, limit, quick)
}
