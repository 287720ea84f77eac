package softroce_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// pair is two soft devices that play ping-pong. Its methods play until a waiting goroutine
// leads.
type pair struct {
	ctx        context.Context
	x, y       *verbs.Device
	ping, pong *pinger
}

// newPair returns when device x has been led. A goroutine echoes on device y until its
// connection fails.
func newPair(tb testing.TB) *pair {
	p := &pair{x: openSoft(tb, "soft0"), y: openSoft(tb, "soft0")}
	c, s := connect(tb, p.x, p.y, rc.Config{})
	p.ping, p.pong = newPinger(tb, c, 8), newPinger(tb, s, 8)
	p.play(tb)
	p.untilLed(tb)
	return p
}

// play starts a goroutine that echoes until the test ends.
func (p *pair) play(tb testing.TB) {
	var echo sync.WaitGroup
	tb.Cleanup(echo.Wait)
	ctx, cancel := context.WithCancel(limited(tb))
	tb.Cleanup(cancel)
	p.ctx = ctx
	echo.Go(func() { p.pong.echo(ctx) })
}

// untilLed plays until x has been led once more.
func (p *pair) untilLed(tb testing.TB) {
	tb.Helper()
	before := softroce.Led(p.x)
	testkit.Until(tb, "leader on the first device", func() bool {
		p.trip(tb)
		return softroce.Led(p.x) > before
	})
}

func (p *pair) trip(tb testing.TB) {
	tb.Helper()
	if err := p.ping.trip(p.ctx); err != nil {
		tb.Fatal(err)
	}
}

// wait calls WaitFor on cq in a goroutine. It returns when that goroutine leads and the port's goroutine sleeps, or when
// WaitFor has returned.
func (p *pair) wait(ctx, owner context.Context, t *testing.T, cq *verbs.CQ) (done <-chan error, led bool) {
	t.Helper()
	before := softroce.Led(p.x)
	returned := make(chan error, 1)
	go func() {
		_, err := cq.WaitFor(ctx, make([]verbs.WC, 1), verbs.WaitOptions{Owner: owner})
		returned <- err
	}()
	testkit.Until(t, "leader, the only waiting goroutine", func() bool {
		led = softroce.Led(p.x) > before
		return led && softroce.PortSleeps(p.x) || len(returned) > 0
	})
	return returned, led
}

// waitLed is wait for a goroutine that must lead.
func (p *pair) waitLed(ctx context.Context, t *testing.T, cq *verbs.CQ) <-chan error {
	t.Helper()
	return p.waitContextsLed(ctx, context.Background(), t, cq)
}

func (p *pair) waitContextsLed(ctx, owner context.Context, t *testing.T, cq *verbs.CQ) <-chan error {
	t.Helper()
	done, led := p.wait(ctx, owner, t, cq)
	if len(done) > 0 {
		t.Fatalf("Wait returned %v; the goroutine has led: %v", <-done, led)
	}
	return done
}

// ended fails the test unless the Wait begun by waitLed ends with the error want.
func ended(t *testing.T, done <-chan error, want error) {
	t.Helper()
	if err := testkit.Receive(t, done, "end of the wait of the leader"); !errors.Is(err, want) {
		t.Fatalf("Wait: %v, want %v", err, want)
	}
}

func TestLeaderIsWoken(t *testing.T) {
	t.Run("cancel", func(t *testing.T) {
		p := newPair(t)
		for range 3 { // repeat: later Waits must watch their own context
			ctx, cancel := context.WithCancel(context.Background())
			done := p.waitLed(ctx, t, newCQ(t, p.x))
			cancel()
			ended(t, done, context.Canceled)
		}
		p.untilLed(t)
	})
	t.Run("cancel of the second context", func(t *testing.T) {
		p := newPair(t)
		for range 3 {
			owner, cancel := context.WithCancel(context.Background())
			done := p.waitContextsLed(t.Context(), owner, t, newCQ(t, p.x))
			cancel()
			ended(t, done, context.Canceled)
		}
		p.untilLed(t)
	})
	t.Run("deadline", func(t *testing.T) {
		p := newPair(t)
		testkit.Until(t, "leader whose deadline passes", func() bool { // it may also pass before it leads
			done, led := p.wait(testkit.Expiring(t), context.Background(), t, newCQ(t, p.x))
			ended(t, done, context.DeadlineExceeded)
			return led
		})
		p.untilLed(t)
	})
	t.Run("Close", func(t *testing.T) {
		p := newPair(t)
		cq := newCQ(t, p.x)
		done := p.waitLed(context.Background(), t, cq)
		if err := cq.Close(); err != nil {
			t.Fatal(err)
		}
		ended(t, done, net.ErrClosed)
		p.untilLed(t)
	})
	t.Run("Close with 99 more waiters", func(t *testing.T) {
		p := newPair(t)
		for range 3 {
			cq := newCQ(t, p.x)
			done := []<-chan error{p.waitLed(context.Background(), t, cq)}
			for range 99 {
				one := make(chan error, 1)
				done = append(done, one)
				go func() {
					_, err := cq.Wait(context.Background(), make([]verbs.WC, 1))
					one <- err
				}()
			}
			for range 10 {
				p.trip(t)
			}
			if err := cq.Close(); err != nil {
				t.Fatal(err)
			}
			for _, one := range done {
				ended(t, one, net.ErrClosed)
			}
			p.untilLed(t)
		}
	})
	t.Run("a completion made by a poster", func(t *testing.T) {
		p := newPair(t)
		if _, err := p.ping.conn.QP().SendCQ().Poll(make([]verbs.WC, 8)); err != nil {
			t.Fatal(err)
		}
		done := p.waitLed(context.Background(), t, p.ping.conn.QP().SendCQ())
		// No region has this key. The poster's goroutine finds out when it sends.
		err := p.ping.conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: 1, LKey: 1}}}})
		if err != nil {
			t.Fatal(err)
		}
		ended(t, done, nil)
	})
	t.Run("a completion made by the timer", func(t *testing.T) {
		p := newPair(t)
		timing := rc.DefaultTiming()
		timing.Timeout, timing.RetryCnt = 10, 1
		c, s := connect(t, p.x, openSoft(t, "soft0"), rc.Config{Timing: &timing})
		if err := s.QP().Modify(&verbs.QPAttr{State: qpstate.Error}, qpstate.MaskState); err != nil {
			t.Fatal(err)
		}
		done := p.waitLed(context.Background(), t, c.QP().SendCQ())
		if err := c.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}}); err != nil {
			t.Fatal(err)
		}
		ended(t, done, nil)
	})
	t.Run("a second waiter", func(t *testing.T) {
		p := newPair(t)
		ctx, cancel := context.WithCancel(context.Background())
		done := p.waitLed(ctx, t, newCQ(t, p.x))
		for range 100 {
			p.trip(t)
		}
		cancel()
		ended(t, done, context.Canceled)
	})
}

// TestLeaderGetsThePort calls the port's goroutine to take over although it receives already.
// The pending call must not keep the next leader from getting the port.
func TestLeaderGetsThePort(t *testing.T) {
	p := newPair(t)
	cq, idle := p.ping.conn.QP().RecvCQ(), newCQ(t, p.x)
	for range 20 {
		p.untilLed(t)
		testkit.Until(t, "port's goroutine that receives again", func() bool { return softroce.Receiving(p.x) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for _, cq := range []*verbs.CQ{cq, idle} { // one leads
			go func() {
				_, err := cq.Wait(ctx, make([]verbs.WC, 1))
				done <- err
			}()
		}
		testkit.Until(t, "two waiting goroutines", func() bool { return softroce.Sleeping(cq)+softroce.Sleeping(idle) == 2 })
		cancel()
		ended(t, done, context.Canceled)
		ended(t, done, context.Canceled)
		ctx, cancel = context.WithCancel(t.Context())
		done2 := p.waitLed(ctx, t, cq)
		cancel()
		ended(t, done2, context.Canceled)
	}
}

// TestLeaverIsReplaced checks that a device answers READs although its last leader has left
// and nobody waits there.
func TestLeaverIsReplaced(t *testing.T) {
	p := newPair(t)
	s := newPatientStream(t, p.y, p.x, verbs.OpRDMARead, 4096)
	for range 20 {
		p.untilLed(t)
		s.run(t, 1)
	}
}

// TestStreamsAreLed checks that a goroutine that waits for READs, or for the ACKs of WRITEs, receives them itself, however
// long they are.
func TestStreamsAreLed(t *testing.T) {
	p := newPair(t)
	for op, size := range map[verbs.Opcode]int{verbs.OpRDMAWrite: 4 * mib, verbs.OpRDMARead: 2 * mib} {
		s := newStream(t, p.x, p.y, op, size)
		before, messages := softroce.Led(p.x), 0
		testkit.Until(t, "leader, again and again", func() bool {
			messages += 10
			s.run(t, 10)
			return softroce.Led(p.x) >= before+20
		}, func() string {
			return fmt.Sprintf("%v: a goroutine led for %d of %d messages of %d bytes", op, softroce.Led(p.x)-before, messages, size)
		})
	}
}

// BenchmarkLed reports for how many messages of a stream, and how many replies of a ping-pong, the waiting goroutine receives
// itself.
func BenchmarkLed(b *testing.B) {
	const messages = 50
	p := newPair(b)
	for _, c := range []struct {
		op   verbs.Opcode
		size int
	}{{verbs.OpRDMAWrite, 4 * mib}, {verbs.OpRDMARead, mib / 4}, {verbs.OpRDMARead, 2 * mib}} {
		s := newStream(b, p.x, p.y, c.op, c.size)
		b.Run(fmt.Sprintf("%v/%dKiB", c.op, c.size/kib), func(b *testing.B) {
			p.untilLed(b)
			before := softroce.Led(p.x)
			for b.Loop() {
				s.run(b, messages)
			}
			b.ReportMetric(float64(softroce.Led(p.x)-before)/float64(b.N*messages), "led/message")
		})
	}
	b.Run("ping-pong", func(b *testing.B) {
		before := softroce.Led(p.x)
		for b.Loop() {
			p.trip(b)
		}
		b.ReportMetric(float64(softroce.Led(p.x)-before)/float64(b.N), "led/message")
	})
}

// TestManyWaiters lets many goroutines wait on two devices, each on its own CQ. They keep
// each other from leading.
func TestManyWaiters(t *testing.T) {
	const conns, trips = 8, 300
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	ctx := testkit.Context(t)
	failed := make(chan error, 2*conns)
	var all sync.WaitGroup
	var last [2]*pinger
	for i := range conns {
		c, s := connect(t, x, y, rc.Config{})
		ping, pong := newPinger(t, c, 8), newPinger(t, s, 8)
		last = [2]*pinger{ping, pong}
		all.Go(func() {
			for n := range trips * (i + 1) { // so that the last connection is alone at the end
				if err := errors.Join(ping.send(), ping.recv(ctx)); err != nil {
					failed <- fmt.Errorf("connection %d, round trip %d: %w", i, n, err)
					return
				}
			}
		})
		all.Go(func() {
			for range trips * (i + 1) {
				if err := errors.Join(pong.recv(ctx), pong.send()); err != nil {
					failed <- fmt.Errorf("echo of connection %d: %w", i, err)
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
	if t.Failed() {
		return
	}
	p := &pair{x: x, y: y, ping: last[0], pong: last[1]} // now nobody else waits
	p.play(t)
	p.untilLed(t)
}
