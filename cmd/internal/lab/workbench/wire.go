// The clock and the wire.

package workbench

import (
	"time"

	"github.com/pkg/errors"
)

// step lets the next event happen.
func (s *Session) step(*Action) (*Result, error) {
	if !s.world.Step() {
		return &Result{Note: "nothing will happen: no packet is on the wire, and no timer runs"}, nil
	}
	return &Result{}, nil
}

// run moves the clock: by ns, or if ns is 0 until no packet is on the wire and no timer runs. It
// stops after a second, because a queue pair may retry forever.
func (s *Session) run(a *Action) (*Result, error) {
	const limit = time.Hour
	switch {
	case a.NS < 0 || a.NS > int64(limit):
		return nil, errors.Errorf("run for %d ns: it is 0 to %v", a.NS, limit)
	case a.NS > 0:
		return s.ran(s.world.RunUntil(s.world.Now()+time.Duration(a.NS), maxEvents)), nil
	}
	end := s.world.Now() + idleLimit
	for range maxEvents {
		at, any := s.world.Next()
		if !any {
			return &Result{}, nil
		}
		if at > end {
			return &Result{Note: "something still happens now and then: a timer runs for longer, or a queue pair retries forever"}, nil
		}
		s.world.Step()
	}
	return s.ran(false), nil
}

// idleLimit is how long run waits for quiet.
const idleLimit = 5 * time.Second

func (s *Session) ran(whole bool) *Result {
	if whole {
		return &Result{}
	}
	return &Result{Note: "stopped after many events; run again to go on"}
}

func (s *Session) drop(a *Action) (*Result, error)      { return done(s.world.Drop(a.Packet)) }
func (s *Session) duplicate(a *Action) (*Result, error) { return done(s.world.Duplicate(a.Packet)) }
func (s *Session) reorder(a *Action) (*Result, error)   { return done(s.world.Reorder(a.Packet)) }
func (s *Session) deliver(a *Action) (*Result, error)   { return done(s.world.Deliver(a.Packet)) }
func (s *Session) corrupt(a *Action) (*Result, error)   { return done(s.world.Flip(a.Packet, a.Bit)) }

func (s *Session) delay(a *Action) (*Result, error) {
	return done(s.world.Delay(a.Packet, time.Duration(a.NS)))
}

func done(err error) (*Result, error) {
	if err != nil {
		return nil, err
	}
	return &Result{}, nil
}
