// The clock, the wire, and how the devices repair losses.

package workbench

import (
	"slices"
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
		if s.world.RunUntil(s.world.Now()+time.Duration(a.NS), maxEvents) {
			return &Result{}, nil
		}
		return s.unquiet(), nil
	}
	end := s.world.Now() + idleLimit
	for range maxEvents {
		at, any := s.world.Next()
		if !any {
			return &Result{}, nil
		}
		if at > end {
			return s.unquiet(), nil
		}
		s.world.Step()
	}
	return s.unquiet(), nil
}

// idleLimit is how long run waits for quiet.
const idleLimit = 5 * time.Second

// unquiet says why the clock has stopped although something still happens.
func (s *Session) unquiet() *Result {
	all := s.world.Packets()
	for _, p := range slices.Backward(all[max(0, len(all)-4):]) { // a request and its RNR NAK are among the last
		if p.Why.Kind != "rnr nak" {
			continue
		}
		h := s.hosts[p.From.Peer()]
		if o := h.qpOf(all[p.Why.Answers-1].Why.QPN); o != nil {
			if in, _ := s.world.InspectQP(h.side, o.qp); in.Attr.RNRRetry == 7 && (in.WaitsRNR || len(s.world.InFlight()) > 0) {
				return &Result{Note: h.side.String() + " " + o.name + " retries without end, because its RNR_RETRY is 7 and its peer has no receive; post a receive at the peer, and run again"}
			}
		}
	}
	return &Result{Note: "the clock has stopped, but more will happen, such as the end of a timer; run again to go on"}
}

func (s *Session) drop(a *Action) (*Result, error)      { return done(s.world.Drop(a.Packet)) }
func (s *Session) duplicate(a *Action) (*Result, error) { return done(s.world.Duplicate(a.Packet)) }
func (s *Session) reorder(a *Action) (*Result, error)   { return done(s.world.Reorder(a.Packet)) }
func (s *Session) deliver(a *Action) (*Result, error)   { return done(s.world.Deliver(a.Packet)) }
func (s *Session) corrupt(a *Action) (*Result, error)   { return done(s.world.Flip(a.Packet, a.Bit)) }
func (s *Session) mark(a *Action) (*Result, error)      { return done(s.world.Mark(a.Packet)) }

// selectiveRepeat chooses how a host's device repairs losses.
func (s *Session) selectiveRepeat(a *Action) (*Result, error) {
	h, err := s.host(a.Host)
	if err != nil {
		return nil, err
	}
	s.world.SetSelectiveRepeat(h.side, a.On)
	return &Result{}, nil
}

func (s *Session) delay(a *Action) (*Result, error) {
	return done(s.world.Delay(a.Packet, time.Duration(a.NS)))
}

func done(err error) (*Result, error) {
	if err != nil {
		return nil, err
	}
	return &Result{}, nil
}
