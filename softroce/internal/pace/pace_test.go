package pace

import (
	"math"
	"testing"
	"time"
)

const packet = 4096

// send sends packets as fast as the rate allows, for a time, at most at line bytes per second. It returns the
// bytes per second that left.
func send(r *Rate, now *time.Duration, d time.Duration, line float64) float64 {
	begin, sent, allowed := *now, 0, 0
	for *now < begin+d {
		if r.Limited() && allowed < packet {
			at, n := r.Reserve(*now, packet)
			allowed += n
			*now = max(*now, at)
		}
		allowed = max(0, allowed-packet)
		sent += packet
		r.Sent(*now, packet)
		*now += time.Duration(packet / line * 1e9)
	}
	return float64(sent) / (*now - begin).Seconds()
}

const line = 1e9

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s is %.4g, want %.4g", what, got, want)
	}
}

// TestCut checks what CNPs do: there is no limit before the first, which halves the rate that was measured,
// and cuts again at most once per 50 µs.
func TestCut(t *testing.T) {
	var r Rate
	now := time.Second
	near(t, "the rate without a CNP", send(&r, &now, 5*time.Millisecond, line), line, 0.01)
	if r.Limited() {
		t.Fatal("there is a limit before the first CNP")
	}
	r.Congested(now)
	near(t, "the rate after the first CNP", r.current, line/2, 0.01)
	r.Congested(now + cutPause - 1)
	near(t, "the rate after a second CNP at once", r.current, line/2, 0.01)
	r.Congested(now + cutPause)
	near(t, "the rate after a second CNP", r.current, line/4, 0.05)
}

// TestEnforced checks that what leaves is what the rate allows, although each wait ends late.
func TestEnforced(t *testing.T) {
	var r Rate
	now := time.Second
	send(&r, &now, 5*time.Millisecond, line)
	r.Congested(now)
	begin, sent, allowed := now, 0, 0
	for now < begin+200*time.Millisecond {
		r.Congested(now) // so it never recovers
		r.current = line / 10
		at, n := r.Reserve(now, packet)
		if allowed += n; at > now {
			now = at + 700*time.Microsecond
		}
		sent, allowed = sent+allowed, 0
	}
	near(t, "the rate with late timers", float64(sent)/(now-begin).Seconds(), line/10, 0.05)
}

// TestRecovery checks the recovery: in five steps to almost the rate before the cut, and then beyond it.
func TestRecovery(t *testing.T) {
	var r Rate
	now := time.Second
	send(&r, &now, 5*time.Millisecond, line)
	r.Congested(now)
	target := r.target
	begin := now
	send(&r, &now, fastSteps*period, line)
	if _, _ = r.Reserve(begin+fastSteps*period, packet); r.target != target || r.current < 0.98*target || r.current > target {
		t.Errorf("after %d steps the rate is %.4g, want nearly %.4g", fastSteps, r.current, target)
	}
	send(&r, &now, 5*period, line)
	if r.target <= target {
		t.Error("the rate does not grow beyond the rate before the cut")
	}
	for range 50 {
		send(&r, &now, time.Millisecond, line/4)
	}
	if _, _ = r.Reserve(now, packet); r.Limited() {
		t.Error("a limit that nobody reaches is not forgotten")
	}
	near(t, "the rate without a limit", send(&r, &now, 5*time.Millisecond, line), line, 0.01)
}

// TestMarksAreRemembered checks that rare CNPs cut less than frequent ones.
func TestMarksAreRemembered(t *testing.T) {
	var r Rate
	now := time.Second
	send(&r, &now, 5*time.Millisecond, line)
	r.Congested(now)
	for range 40 {
		send(&r, &now, 5*time.Millisecond, line)
		r.Congested(now)
	}
	if r.marks > 0.1 {
		t.Errorf("the share of periods with CNPs is %.2f, want less than 0.1", r.marks)
	}
}

// TestAfterAPause checks that a sender that begins again is measured from then on.
func TestAfterAPause(t *testing.T) {
	var r Rate
	now := time.Second
	send(&r, &now, 5*time.Millisecond, line)
	now += time.Second
	send(&r, &now, 200*time.Microsecond, line)
	r.Congested(now)
	near(t, "the rate", r.current, line/2, 0.05)
}

// TestTurns checks that those that wait get turns in order, and that what one returns is left for others.
func TestTurns(t *testing.T) {
	var r Rate
	now := time.Second
	send(&r, &now, 5*time.Millisecond, line)
	r.Congested(now)
	last := now
	for range 10 {
		at, n := r.Reserve(now, packet)
		if at < last || n < packet {
			t.Fatalf("%d bytes at %v, after a turn at %v", n, at, last)
		}
		last = at
	}
	before := r.free
	r.Return(10 * packet)
	if gave := before - r.free; gave < 80*time.Microsecond || gave > 84*time.Microsecond {
		t.Errorf("40 KiB at 0.5 GB/s give back %v, want 82 µs", gave)
	}
}

// TestLeast checks that CNPs without end leave some rate, and that nothing overflows.
func TestLeast(t *testing.T) {
	var r Rate
	now := time.Second
	r.Congested(now) // before anything was sent
	for range 1000 {
		now += cutPause
		r.Congested(now)
	}
	if r.current != least {
		t.Errorf("the rate is %v, want %v", r.current, float64(least))
	}
	if at, n := r.Reserve(now, packet); at > now+time.Second || n < packet {
		t.Errorf("%d bytes at %v, now is %v", n, at, now)
	}
}
