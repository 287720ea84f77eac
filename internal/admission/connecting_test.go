package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestClientsThatDoNotConnect fills a server again and again with clients that say hello and nothing more. A client
// of another address gets a place after Silence, and keeps it. Connected clients stay, whatever happens.
func TestClientsThatDoNotConnect(t *testing.T) {
	for _, perSecond := range []int{50, 1000} {
		synctest.Test(t, func(t *testing.T) {
			const places = 8
			d := New(Limits{Clients: places, Memory: places * 100, Waiting: 64, Patience: Patience})
			stays, err := come(d, one, 100)
			must(t, stays, err).began = time.Now().Add(24 * time.Hour) // busy
			ctx, end := context.WithCancel(t.Context())
			for range 2 * places {
				attack(ctx, d, perSecond/places/2)
			}
			synctest.Wait()
			for range 30 {
				time.Sleep(time.Duration(rand.IntN(int(time.Second))))
				began := time.Now()
				v := greet(d, other)
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
				if u := d.Usage(); u.Clients > places || u.Memory > 100*places {
					t.Fatalf("%+v", u)
				}
			}
			if hadToLeave(stays) {
				t.Errorf("a connected client had to leave: %v", stays.ended.Load())
			}
			end()
			time.Sleep(time.Second)
			if u := d.Usage(); u != (Usage{Clients: 1, Memory: 100}) {
				t.Errorf("at the end: %+v", u)
			}
		})
	}
}

// attack has so many clients of an address come each second, until ctx ends.
func attack(ctx context.Context, d *Desk, perSecond int) {
	go func() {
		for ctx.Err() == nil {
			go func() {
				v := greet(d, one)
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

// TestNobodyWantsThePlace: a client that does not connect stays while nobody waits.
func TestNobodyWantsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Limits{Clients: 1, Waiting: 1, Patience: Patience})
		slow := greet(d, one)
		if err := slow.ask(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if hadToLeave(slow) {
			t.Error("it had to leave")
		}
		v, err := come(d, one, 1)
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
		d := New(Limits{Clients: 1, Waiting: 1, Patience: time.Hour})
		v, err := come(d, one, 1)
		must(t, v, err).moved.Store(true)
		gone := make(chan struct{})
		w := greet(d, other)
		w.gone, w.why = gone, func() error { return errors.New("the peer closed") }
		over := make(chan error, 1)
		go func() { over <- w.ask(t.Context(), 1) }()
		synctest.Wait()
		if n := d.Usage().Waiting; n != 1 {
			t.Errorf("%d wait", n)
		}
		close(gone)
		if err := <-over; err == nil || err.Error() != "the peer closed" || d.Usage().Waiting != 0 {
			t.Errorf("%v; %d wait", err, d.Usage().Waiting)
		}
	})
}
