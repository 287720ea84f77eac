package simulate

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// run runs a scenario and checks its share of the line and its fairness.
func run(t *testing.T, s *Scenario, share, fairness float64) *Result {
	t.Helper()
	r, err := s.Run()
	if err != nil {
		t.Fatalf("%s: %v", s.Title, err)
	}
	t.Logf("%s: %.1f %% of the line, Jain's index %.3f, %d timeouts, %d times back, %d lost, %d overflows, %d marked",
		s.Title, 100*r.Share, r.Jain, r.Timeouts, r.WentBack, r.Lost, r.Overflow, r.Marked)
	if r.Share < share || r.Share > 1.002 { // the clock counts whole nanoseconds
		t.Errorf("%s: %.1f %% of the line, want %.1f to 100", s.Title, 100*r.Share, 100*share)
	}
	if r.Jain < fairness {
		t.Errorf("%s: Jain's index is %.3f, want %.3f", s.Title, r.Jain, fairness)
	}
	return r
}

// TestSimulateQuiet checks that nothing but the line limits a flow if no packet is lost.
func TestSimulateQuiet(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		for _, mtu := range []qpstate.MTU{qpstate.MTU1024, qpstate.MTU4096} {
			if r := run(t, Loss(op, mtu, 0, 50*time.Millisecond), 0.98, 1); r.Timeouts+r.WentBack+r.Overflow > 0 {
				t.Errorf("%v with path MTU %v: packets were sent again", op, mtu)
			}
		}
	}
}

// TestSimulateLoss checks that a flow needs no ACK timeout on a lossy link.
func TestSimulateLoss(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		for _, c := range []struct{ loss, share float64 }{{1e-3, 0.95}, {1e-2, 0.80}} {
			if r := run(t, Loss(op, qpstate.MTU1024, c.loss, 300*time.Millisecond), c.share, 1); r.Timeouts > 0 {
				t.Errorf("%v: %d timeouts", op, r.Timeouts)
			}
		}
	}
}

// TestSimulateGoBack checks a responder that drops the packets behind a gap: the losses of a link do not shrink the
// window much, and senders to one receiver still share its link.
func TestSimulateGoBack(t *testing.T) {
	for _, c := range []struct {
		s     *Scenario
		share float64
	}{
		{Loss(verbs.OpRDMAWrite, qpstate.MTU1024, 1e-3, time.Second), 0.80},
		{Loss(verbs.OpRDMAWrite, qpstate.MTU1024, 1e-2, time.Second), 0.32},
		{Incast(8, 1<<20, 0, 200*time.Millisecond), 0.9},
		{Far(Incast(8, 64<<10, 0, 200*time.Millisecond)), 0.65},
	} {
		if r := run(t, GoBack(c.s), c.share, 0.95); r.Timeouts > 0 {
			t.Errorf("%s: %d timeouts", c.s.Title, r.Timeouts)
		}
	}
}

// TestSimulateIncast checks that senders to one receiver share its link, without timeouts.
func TestSimulateIncast(t *testing.T) {
	for _, s := range []*Scenario{
		Incast(8, 256<<10, 0, 100*time.Millisecond),
		Incast(8, 256<<10, marksFrom, 100*time.Millisecond),
		MixedRTT(marksFrom, 200*time.Millisecond),
	} {
		if r := run(t, s, 0.85, 0.9); r.Timeouts > 0 {
			t.Errorf("%s: %d timeouts", s.Title, r.Timeouts)
		}
	}
}

// TestSimulateUnreliable checks that senders over UC and UD share a link whose switch marks packets, and that
// few packets are lost. Without marks, seven of eight packets are lost.
func TestSimulateUnreliable(t *testing.T) {
	for _, kind := range []verbs.QPType{verbs.UC, verbs.UD} {
		for _, buffer := range []int{256 << 10, 1 << 20} {
			r := run(t, Unreliable(kind, 8, buffer, marksFrom, 200*time.Millisecond), 0.95, 0.98)
			if r.Dropped > 0.01 {
				t.Errorf("%v, a buffer of %d bytes: %.2f %% of the packets are lost", kind, buffer, 100*r.Dropped)
			}
		}
		if r := run(t, Unreliable(kind, 8, 256<<10, 0, 20*time.Millisecond), 0.9, 0); r.Dropped < 0.8 {
			t.Errorf("%v without marks: %.2f %% of the packets are lost, want nearly 87.5", kind, 100*r.Dropped)
		}
	}
	if r := run(t, Mixed(1<<20, marksFrom, 200*time.Millisecond), 0.95, 0.9); r.Dropped > 0 || r.Timeouts > 0 {
		t.Errorf("UC and RC: %.2f %% of the packets are lost, %d timeouts", 100*r.Dropped, r.Timeouts)
	}
}

// TestSimulateFanIn checks that READs from many responders do not overrun the requester's receive buffer, and
// get as much as READs from one.
func TestSimulateFanIn(t *testing.T) {
	one := run(t, FanIn(1, 256<<10, 100*time.Millisecond), 0.8, 1)
	for _, responders := range []int{8, 32} {
		r := run(t, FanIn(responders, 256<<10, 100*time.Millisecond), 0.98*one.Share, 0.98)
		if r.Overflow+r.Timeouts+r.WentBack > 0 {
			t.Errorf("%d responders: %d overflows, %d timeouts, %d times back", responders, r.Overflow, r.Timeouts, r.WentBack)
		}
	}
}

// TestSimulateMany checks that every flow of many hosts gets its part.
func TestSimulateMany(t *testing.T) {
	if r := run(t, Many(50, 8, marksFrom, 10*time.Millisecond), 0.8, 0.8); r.Timeouts > 0 {
		t.Errorf("%d timeouts", r.Timeouts)
	}
}

// TestSimulateRepeats checks that a scenario has the same result each time.
func TestSimulateRepeats(t *testing.T) {
	for _, s := range []*Scenario{
		Loss(verbs.OpRDMAWrite, qpstate.MTU4096, 1e-3, 20*time.Millisecond),
		Unreliable(verbs.UC, 8, 256<<10, marksFrom, 20*time.Millisecond),
		Unreliable(verbs.UD, 8, 256<<10, marksFrom, 20*time.Millisecond),
	} {
		a, b := run(t, s, 0, 0), run(t, s, 0, 0)
		if a.Share != b.Share || a.Lost != b.Lost || a.Overflow != b.Overflow || a.Lost+a.Overflow == 0 {
			t.Errorf("two runs of %s have %v and %v of the line, and lost %d and %d packets", s.Name, a.Share, b.Share, a.Lost+a.Overflow, b.Lost+b.Overflow)
		}
	}
}

// TestJain checks the index of fairness.
func TestJain(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{5, 5, 5, 5}, 1}, {[]float64{1, 0, 0, 0}, 0.25}, {[]float64{0, 0}, 0}, {[]float64{1, 3}, 0.8}} {
		if got := jain(c.values); got != c.want {
			t.Errorf("jain(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}
