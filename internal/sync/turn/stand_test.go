package turn

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"
)

const tick = time.Millisecond

// standing is a server with a goroutine in Stand.
type standing struct {
	*server
	t    *testing.T
	by   *customer // hands out parcels while nobody waits
	over bool
}

// stand runs test in simulated time. At its end the goroutine in Stand must return.
func stand(t *testing.T, test func(s *standing)) {
	synctest.Test(t, func(t *testing.T) {
		s := &standing{server: newServer(2), t: t}
		s.by = &customer{Waiter: NewWaiter(), d: s.server}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Lock()
			defer s.Unlock()
			s.Stand(s.by.Waiter, tick, func() bool { return s.over }, func() error { return s.by.work(context.Background(), context.Background()) })
		}()
		synctest.Wait()
		s.works("at first", s.by)
		test(s)
		s.Lock()
		s.over = true
		s.Unlock()
		s.Call()
		<-ended
	})
}

// works fails the test unless the customer's goroutine works; nil stands for nobody.
func (s *standing) works(when string, c *customer) {
	s.t.Helper()
	s.Lock()
	defer s.Unlock()
	var w *Waiter
	if c != nil {
		w = c.Waiter
	}
	if s.worker != w {
		s.t.Errorf("%s another one works, or nobody does", when)
	}
}

// wait begins a wait of a customer.
func (s *standing) wait(ctx context.Context, n int) (done <-chan error) {
	served := make(chan error, 1)
	go func() { served <- s.customers[n].await(ctx, context.Background()) }()
	synctest.Wait()
	return served
}

func (s *standing) served(done <-chan error) {
	s.t.Helper()
	if err := <-done; err != nil {
		s.t.Error(err)
	}
	synctest.Wait()
}

func TestStandGivesWay(t *testing.T) {
	stand(t, func(s *standing) {
		s.arrived <- 0
		synctest.Wait()
		if s.customers[0].got != 1 {
			s.t.Error("nothing is handed out while nobody waits")
		}
		s.customers[0].got = 0
		done := s.wait(s.t.Context(), 0)
		s.works("while one waits", s.customers[0])
		s.arrived <- 0
		s.served(done)
		s.works("at once afterwards", nil)
		time.Sleep(tick - 1)
		s.works("before the tick", nil)
		for range 10 { // one comes back each time before the stander has seen a whole tick without work
			s.arrived <- 0
			s.served(s.wait(s.t.Context(), 0))
			time.Sleep(tick)
		}
		time.Sleep(tick)
		synctest.Wait()
		s.works("after a tick in which nobody has", s.by)
	})
}

// TestStandRests: while another one works for long, the goroutine in Stand sleeps and has no timer.
func TestStandRests(t *testing.T) {
	stand(t, func(s *standing) {
		done := s.wait(s.t.Context(), 0)
		time.Sleep(3 * tick)
		s.Lock()
		if !s.Rests() {
			s.t.Error("it looks each tick")
		}
		s.Unlock()
		s.arrived <- 0
		s.served(done)
		s.works("at once after the other one", nil)
		time.Sleep(3 * tick)
		synctest.Wait()
		s.works("after the other one", s.by)
		for !s.Hold(s.customers[1].Waiter) {
			synctest.Wait()
		}
		time.Sleep(3 * tick)
		s.Give()
		time.Sleep(3 * tick)
		synctest.Wait()
		s.works("after one that holds the turn", s.by)
	})
}

// TestHold: nobody works between two times of the holder, and those who wait are served.
func TestHold(t *testing.T) {
	for _, holderVanishes := range []bool{false, true} {
		stand(t, func(s *standing) {
			holder := NewWaiter()
			hold := func() bool {
				if !s.Hold(holder) {
					return false
				}
				s.Give()
				return true
			}
			asleep := s.wait(s.t.Context(), 0)
			if hold() {
				s.t.Error("held while another one works")
			}
			synctest.Wait()
			for range 20 {
				if !hold() {
					s.t.Error("not held, although whoever worked was interrupted")
				}
				time.Sleep(tick / 4)
				s.works("while the turn is held", nil)
			}
			late := s.wait(s.t.Context(), 1)
			s.works("when another one comes", nil)
			if !holderVanishes {
				s.Free()
				synctest.Wait()
				s.works("at once after Free", nil)
			}
			time.Sleep(2 * tick)
			synctest.Wait()
			s.works("later", s.customers[0])
			s.arrived <- 1
			s.served(late)
			s.arrived <- 0
			s.served(asleep)
		})
	}
}

// TestHoldComesToWork: a goroutine that works for a moment now and then, and frees the turn each time, has it the second time,
// although the goroutine in Stand could begin again as soon as it is free. One that begins to wait then works at once.
func TestHoldComesToWork(t *testing.T) {
	stand(t, func(s *standing) {
		w := NewWaiter()
		if s.Hold(w) {
			s.t.Error("held while another one works")
		}
		s.Free()
		synctest.Wait()
		s.works("after Free", nil)
		if !s.Hold(w) {
			s.t.Error("not held the second time")
		}
		s.Give()
		s.Free()
		time.Sleep(3 * tick)
		synctest.Wait()
		s.works("later", s.by)
		s.Hold(w)
		s.Free()
		done := s.wait(s.t.Context(), 0)
		s.works("when one waits", s.customers[0])
		s.arrived <- 0
		s.served(done)
	})
}

// TestCallAfterFree: Call serves one that sleeps because the turn was held, also if it comes more often than the tick.
func TestCallAfterFree(t *testing.T) {
	stand(t, func(s *standing) {
		for !s.Hold(s.customers[1].Waiter) {
			synctest.Wait()
		}
		s.Give()
		done := s.wait(s.t.Context(), 0)
		s.works("while the turn is held", nil)
		s.Free()
		s.Call()
		synctest.Wait()
		s.works("after Free and Call", s.customers[0])
		s.arrived <- 0
		s.served(done)
	})
}

// TestHoldInVain: one that works for long, and for which the goroutine in Stand rests, goes on when the turn is held for
// a moment, whether Free comes or not.
func TestHoldInVain(t *testing.T) {
	for _, free := range []bool{false, true} {
		stand(t, func(s *standing) {
			done := s.wait(s.t.Context(), 0)
			time.Sleep(3 * tick)
			if s.Hold(NewWaiter()) {
				s.t.Error("held while another one works")
			}
			synctest.Wait()
			if free {
				s.Free()
			}
			time.Sleep(3 * tick)
			synctest.Wait()
			s.works("later", s.customers[0])
			s.arrived <- 0
			s.served(done)
		})
	}
}

// TestFreeLetsTheNextWork: who begins to wait after Free works at once.
func TestFreeLetsTheNextWork(t *testing.T) {
	stand(t, func(s *standing) {
		for !s.Hold(NewWaiter()) {
			synctest.Wait()
		}
		s.Give()
		s.Free()
		done := s.wait(s.t.Context(), 0)
		s.works("after Free", s.customers[0])
		s.arrived <- 0
		s.served(done)
	})
}

func TestTake(t *testing.T) {
	stand(t, func(s *standing) {
		ctx, stop := context.WithCancel(s.t.Context())
		done := s.wait(ctx, 0)
		w := NewWaiter()
		s.Take(w)
		if s.Try(NewWaiter()) {
			s.t.Error("two have the turn")
		}
		s.Give()
		synctest.Wait()
		s.works("afterwards", s.customers[0])
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			s.t.Error(err)
		}
		if !s.Try(w) {
			s.t.Error("nobody has the turn, and it cannot be tried")
		}
		s.Give()
		s.Call()
		synctest.Wait()
		s.works("when it is called", s.by)
	})
}
