package softroce_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// pair is two soft devices that play ping-pong. Its methods play until a waiting goroutine
// leads.
type pair struct {
	x, y       *verbs.Device
	ping, pong *pinger
}

// newPair returns when device x has been led. A goroutine echoes on device y until its
// connection fails.
func newPair(t *testing.T) *pair {
	p := &pair{x: openSoft(t, "soft0"), y: openSoft(t, "soft0")}
	c, s := connect(t, p.x, p.y, rc.Config{})
	p.ping, p.pong = newPinger(t, c, 8), newPinger(t, s, 8)
	var echo sync.WaitGroup
	t.Cleanup(echo.Wait)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	echo.Go(func() { p.pong.echo(ctx) })
	p.untilLed(t)
	return p
}

// untilLed plays until x has been led once more.
func (p *pair) untilLed(t *testing.T) {
	t.Helper()
	before := softroce.Led(p.x)
	for range 10_000 {
		p.trip(t)
		if softroce.Led(p.x) > before {
			return
		}
	}
	t.Fatal("no goroutine led in 10000 round trips")
}

func (p *pair) trip(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.ping.send(); err != nil {
		t.Fatal(err)
	}
	if err := p.ping.recv(ctx); err != nil {
		t.Fatal(err)
	}
}

// waitLed calls Wait on cq in a goroutine, and returns when that goroutine leads.
func (p *pair) waitLed(ctx context.Context, t *testing.T, cq *verbs.CQ) <-chan error {
	t.Helper()
	return p.waitContextsLed(ctx, context.Background(), t, cq)
}

func (p *pair) waitContextsLed(ctx, owner context.Context, t *testing.T, cq *verbs.CQ) <-chan error {
	t.Helper()
	before := softroce.Led(p.x)
	done := make(chan error, 1)
	go func() {
		_, err := cq.WaitFor(ctx, make([]verbs.WC, 1), verbs.WaitOptions{Owner: owner})
		done <- err
	}()
	for range 1000 {
		if softroce.Led(p.x) > before {
			time.Sleep(5 * time.Millisecond) // until the port's goroutine sleeps
			return done
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the only waiting goroutine does not lead")
	return nil
}

// ended fails the test unless the Wait begun by waitLed ends soon, with the error want.
func ended(t *testing.T, done <-chan error, want error) {
	t.Helper()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			t.Fatalf("Wait: %v, want %v", err, want)
		}
	case <-time.After(5 * time.Second):
		t.Fatalf("the leader was not woken; want %v", want)
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
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		ended(t, p.waitLed(ctx, t, newCQ(t, p.x)), context.DeadlineExceeded)
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
	cq := p.ping.conn.QP().RecvCQ()
	wait := func(limit time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := cq.Wait(ctx, make([]verbs.WC, 1))
			done <- err
		}()
		ended(t, done, context.DeadlineExceeded)
	}
	for range 20 {
		p.untilLed(t)
		time.Sleep(5 * time.Millisecond) // until the port's goroutine receives again
		softroce.SetTraffic(p.x, false)
		wait(5 * time.Millisecond)
		softroce.SetTraffic(p.x, true)
		wait(20 * time.Millisecond)
	}
}

// TestLeaverIsReplaced checks that a device answers READs although its last leader has left
// and nobody waits there.
func TestLeaverIsReplaced(t *testing.T) {
	p := newPair(t)
	s := newStream(t, p.y, p.x, verbs.OpRDMARead, 4096)
	for range 20 {
		p.untilLed(t)
		begin := time.Now()
		s.run(t, 1)
		// An ACK timeout is 67 ms, but the machine may be busy.
		if took := time.Since(begin); took > time.Second {
			t.Errorf("a READ took %v after the leader had left", took)
		}
	}
}

// TestHeavyTrafficIsNotLed mixes READs of 2 MiB with small messages.
func TestHeavyTrafficIsNotLed(t *testing.T) {
	p := newPair(t)
	s := newStream(t, p.x, p.y, verbs.OpRDMARead, 2*mib)
	p.untilLed(t)
	s.run(t, 2)
	before := softroce.Led(p.x)
	s.run(t, 50)
	if n := softroce.Led(p.x) - before; n > 30 { // up to 19 under the race detector
		t.Errorf("a goroutine led for %d of 50 READs of 2 MiB", n)
	}
	p.untilLed(t)
}

// TestStreamsAreLed checks that a goroutine that waits for READs of 256 KiB, or for the ACKs of WRITEs of any size,
// receives them itself.
func TestStreamsAreLed(t *testing.T) {
	p := newPair(t)
	for op, size := range map[verbs.Opcode]int{verbs.OpRDMAWrite: 4 * mib, verbs.OpRDMARead: mib / 4} {
		s := newStream(t, p.x, p.y, op, size)
		p.untilLed(t)
		before := softroce.Led(p.x)
		s.run(t, 50)
		if n := softroce.Led(p.x) - before; n < 10 {
			t.Errorf("%v: a goroutine led for %d of 50 messages of %d bytes", op, n, size)
		}
	}
}

// TestManyWaiters lets many goroutines wait on two devices, each on its own CQ. They keep
// each other from leading.
func TestManyWaiters(t *testing.T) {
	const conns, trips = 8, 300
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	failed := make(chan error, 2*conns)
	var all sync.WaitGroup
	for i := range conns {
		c, s := connect(t, x, y, rc.Config{})
		ping, pong := newPinger(t, c, 8), newPinger(t, s, 8)
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
	if softroce.Led(x) == 0 {
		t.Error("no goroutine has led")
	}
}
