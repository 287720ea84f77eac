// Standing by: a goroutine that works if nobody else does.

package turn

import "time"

// stander is the goroutine in Stand. The turn's mutex guards it.
type stander struct {
	w      *Waiter
	called bool // it is to begin at once
	rests  bool // another goroutine works for long, and wakes it at the end
	yields bool // Hold has interrupted it: it waits a tick, or after Free it could begin again before the next Hold, each time
}

// Stand works until done, but only while nobody else waits. When another goroutine has worked, that one will probably
// come back. So Stand looks once per tick, and works again when nobody has worked for a tick. While another goroutine works for longer,
// Stand sleeps. The caller holds the mutex, and done and work are called with it.
func (t *Turn) Stand(w *Waiter, tick time.Duration, done func() bool, work func() error) {
	t.stander = stander{w: w}
	look := time.NewTimer(tick)
	defer look.Stop()
	for !done() {
		if t.worker == nil && t.free() && t.first == nil {
			_ = t.work(w, work)
		}
		if t.worker != nil || !t.free() || t.first != nil || t.stander.yields {
			t.standBy(look, tick)
		}
	}
	t.stander = stander{}
}

// standBy returns when the stander is to look whether it may work.
func (t *Turn) standBy(look *time.Timer, tick time.Duration) {
	s := &t.stander
	s.yields = false
	look.Reset(tick)
	defer look.Stop()
	for !s.called {
		rounds, ticked := t.rounds, false
		t.Unlock()
		select {
		case <-look.C:
			look.Reset(tick)
			ticked = true
		case <-s.w.wake:
		}
		t.Lock()
		switch {
		case !ticked || t.rounds != rounds:
		case t.worker == nil:
			t.held = false // whoever held the turn does something else
			if t.first == nil {
				return
			}
			t.first.Wake()
		default:
			s.rests = true
			t.Unlock()
			<-s.w.wake
			t.Lock()
			s.rests = false
			look.Reset(tick)
		}
	}
	s.called = false
}

// Call makes the goroutine in Stand look at once whether it may work, and whether it is done.
func (t *Turn) Call() {
	t.Lock()
	defer t.Unlock()
	if t.stander.w != nil {
		t.stander.called = true
		t.held = false
		if t.worker == nil && t.first != nil { // not only the stander, which would begin another tick
			t.first.Wake()
		}
		t.Wake(t.stander.w)
	}
}

// Rests reports whether the goroutine in Stand sleeps because another one works for long. The caller holds the mutex.
func (t *Turn) Rests() bool { return t.stander.rests }
