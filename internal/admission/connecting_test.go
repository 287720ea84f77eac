package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestClientsThatDoNotConnect fills a server again and again with clients that say hello and nothing more. A client
// of another address gets a place after Silence, and keeps it. Connected clients stay, whatever happens.
func TestClientsThatDoNotConnect(t *testing.T) {
	honest := 30
	if testkit.Race {
		honest = 3
	}
	for _, perSecond := range []int{50, 1000} {
		synctest.Test(t, func(t *testing.T) {
			const places = 8
			ac := New(Limits{Clients: places, Memory: places * 100, Waiting: 64, Patience: Patience})
			stays, err := come(ac, one, 100)
			must(t, stays, err).began = time.Now().Add(24 * time.Hour) // busy
			ctx, end := context.WithCancel(t.Context())
			for range 2 * places {
				attack(ctx, ac, perSecond/places/2)
			}
			synctest.Wait()
			for range honest {
				time.Sleep(time.Duration(rand.IntN(int(time.Second))))
				began := time.Now()
				v := greet(ac, other)
				if err := v.ask(t.Context(), 100); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(began); waited > Silence+10*time.Millisecond {
					t.Errorf("a place after %v", waited)
				}
				time.Sleep(Silence * 9 / 10) // connects slowly
				if hadToLeave(v) {
					t.Errorf("an honest client had to leave: %v", v.ended.Load())
				}
				v.Connected(100)
				v.Leave()
				if u := ac.Usage(); u.Clients > places || u.Memory > 100*places {
					t.Fatalf("%+v", u)
				}
			}
			if hadToLeave(stays) {
				t.Errorf("a connected client had to leave: %v", stays.ended.Load())
			}
			end()
			time.Sleep(time.Second)
			if u := ac.Usage(); u != (Usage{Clients: 1, Memory: 100}) {
				t.Errorf("at the end: %+v", u)
			}
		})
	}
}

// attack has so many clients of an address come each second, until ctx ends.
func attack(ctx context.Context, ac *Controller, perSecond int) {
	go func() {
		for ctx.Err() == nil {
			go func() {
				v := greet(ac, one)
				defer v.Leave()
				var full *FullError
				switch err := v.ask(ctx, 100); {
				case err == nil:
					select {
					case <-ctx.Done():
					case <-v.ctx.Done():
					}
				case !errors.As(err, &full) && ctx.Err() == nil:
					panic(err)
				}
			}()
			time.Sleep(time.Second/time.Duration(perSecond) + time.Duration(rand.IntN(1000)))
		}
	}()
}

// TestTooLate: a client that has to leave cannot stay because it connects at that moment.
func TestTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 1, Waiting: Waiting, Patience: time.Hour})
		late := greet(ac, one)
		if _, err := late.Admit(t.Context(), 1, nil); err != nil {
			t.Fatal(err)
		}
		next := make(chan error, 1)
		go func() { next <- greet(ac, other).ask(t.Context(), 1) }()
		time.Sleep(2 * LongSilence)
		if err := late.Connected(1); !errors.As(err, new(*IdleError)) {
			t.Errorf("a client that was ended: %v", err)
		}
		late.Leave()
		if err := <-next; err != nil {
			t.Error(err)
		}
	})
}

// TestRoomIsKept: what ended clients free is for the newcomer that they were ended for, not for a smaller one.
func TestRoomIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 10, Memory: 90, Waiting: Waiting, Patience: Patience})
		for range 2 {
			v, err := come(ac, one, 30)
			must(t, v, err)
		}
		busy, err := come(ac, one, 30)
		must(t, busy, err).began = time.Now().Add(time.Hour)
		large, small := make(chan error, 1), make(chan error, 1)
		go func() {
			v, err := come(ac, other, 60)
			v.moved.Store(true)
			large <- err
		}()
		time.Sleep(time.Millisecond)
		go func() { small <- greet(ac, netip.MustParseAddr("192.0.2.3")).ask(t.Context(), 30) }()
		if err := <-large; err != nil {
			t.Errorf("the large client: %v", err)
		}
		refused(t, <-small, "all clients together use 90 bytes")
		if len(ac.kept) != 0 || ac.all.memory != 90 {
			t.Errorf("%v are kept, and %+v are used", ac.kept, ac.all)
		}
	})
}

// TestNobodyWantsThePlace: a client that does not connect stays while nobody waits.
func TestNobodyWantsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 1, Waiting: 1, Patience: time.Hour})
		slow := greet(ac, one)
		if err := slow.ask(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if hadToLeave(slow) {
			t.Error("it had to leave")
		}
		v, err := come(ac, one, 1)
		must(t, v, err)
		time.Sleep(time.Second)
		if e := slow.ended.Load(); e == nil || !e.Connecting {
			t.Errorf("the slow client: %v", e)
		}
	})
}

// TestAClientLeavesTheLine: a client whose TCP connection ends while it waits leaves.
func TestAClientLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 1, Waiting: 1, Patience: time.Hour})
		v, err := come(ac, one, 1)
		must(t, v, err).moved.Store(true)
		gone := make(chan struct{})
		w := greet(ac, other)
		w.gone, w.why = gone, func() error { return errors.New("the peer closed") }
		over := make(chan error, 1)
		go func() { over <- w.ask(t.Context(), 1) }()
		synctest.Wait()
		if n := ac.Usage().Waiting; n != 1 {
			t.Errorf("%d wait", n)
		}
		close(gone)
		if err := <-over; err == nil || err.Error() != "the peer closed" || ac.Usage().Waiting != 0 {
			t.Errorf("%v; %d wait", err, ac.Usage().Waiting)
		}
	})
}
