package pace

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const packet = 4096

// send sends packets as fast as the rate allows, for a time, at most at line bytes per second. It returns the
// bytes per second that left.
func send(r *Rate, now *time.Duration, d time.Duration, line float64) float64 {
	begin, sent, allowed := *now, 0, 0
	for *now < begin+d {
		if r.Limited() && allowed < packet {
			turn, n := r.Reserve(*now, packet)
			allowed += n
			*now = await(r, *now, turn)
		}
		allowed = max(0, allowed-packet)
		sent += packet
		r.Sent(*now, packet)
		*now += time.Duration(packet / line * 1e9)
	}
	return float64(sent) / (*now - begin).Seconds()
}

// await returns the time at which a turn comes, or a second later.
func await(r *Rate, now time.Duration, turn Turn) time.Duration {
	for limit := now + time.Second; now < limit; {
		at := r.When(now, turn)
		if at <= now {
			break
		}
		now = at
	}
	return now
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
	begin, sent := now, 0
	for now < begin+200*time.Millisecond {
		turn, n := r.Reserve(now, packet)
		for r.When(now, turn) > now {
			now += fastSteps * period // late, and just before the rate grows
			r.Congested(now)          // so it never recovers
			r.current, r.target = line/10, line/10
		}
		sent += n
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
	now := limited(&r)
	last := Turn(0)
	for range 10 {
		turn, n := r.Reserve(now, packet)
		if turn < last || n < packet {
			t.Fatalf("%d bytes at %v, after a turn at %v", n, turn, last)
		}
		last = turn
	}
	r.Return(int(last - Turn(r.left)))
	if at := r.When(now, last); at != now {
		t.Errorf("the others have returned their bytes, and the last one waits for %v", at-now)
	}
	turn, _ := r.Reserve(now, packet)
	before := await(&r, now, turn)
	if gap := before - now; gap < 20*time.Microsecond || gap > 30*time.Microsecond {
		t.Errorf("behind the 20 µs of the last one, the next one waits for %v", gap)
	}
}

// limited sends for a while and then gets a CNP. It returns the time.
func limited(r *Rate) time.Duration {
	now := time.Second
	send(r, &now, 5*time.Millisecond, line)
	r.Congested(now)
	return now
}

// TestTurnsComeSoonerWhenTheRateRecovers lets many wait at the lowest rate, and then the CNPs end. At that rate the
// last one would wait for a third of a second, and longer than those that come later.
func TestTurnsComeSoonerWhenTheRateRecovers(t *testing.T) {
	var r Rate
	now := time.Second
	r.Congested(now) // before anything was sent
	turns := make([]Turn, 100)
	for i := range turns {
		turns[i], _ = r.Reserve(now, packet)
	}
	asked, last, asks := 0, now, make(map[Turn]time.Duration)
	for _, turn := range turns {
		asks[turn] = now
	}
	for ; len(asks) > 0; asked++ {
		next := slices.MinFunc(slices.Collect(maps.Keys(asks)), func(a, b Turn) int { return cmp.Compare(asks[a], asks[b]) })
		last = asks[next]
		if asks[next] = r.When(last, next); asks[next] <= last {
			delete(asks, next)
		}
	}
	if took := last - now; took > 4*time.Millisecond {
		t.Errorf("the last one waits for %v", took)
	}
	if asked > 10*len(turns) {
		t.Errorf("%d senders asked %d times", len(turns), asked)
	}
	later, _ := r.Reserve(last, packet)
	if !r.Limited() || later < turns[len(turns)-1] {
		t.Error("who comes later is before those that waited")
	}
}

// TestLimitStaysWhileSomebodyWaits checks that the limit is not forgotten while somebody waits, so that nobody who comes
// later is before him.
func TestLimitStaysWhileSomebodyWaits(t *testing.T) {
	var r Rate
	now := limited(&r)
	turn, _ := r.Reserve(now, packet)
	turn += 1 << 40 // it does not come in this test
	for range 100 {
		now += time.Millisecond
		if r.When(now, turn); !r.Limited() {
			t.Fatal("the limit is forgotten although somebody waits")
		}
	}
	now += unusedFor + 1
	if r.When(now, turn) != now || r.Limited() {
		t.Error("the limit is not forgotten although nobody has asked for long")
	}
}

// TestConcurrentSenders checks that no reservation of several goroutines is lost, and that all turns come.
func TestConcurrentSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Rate
		limited(&r)
		begin := time.Now()
		since := func() time.Duration { return 2*time.Second + time.Since(begin) }
		r.Congested(since())
		before := r.sent.Load()
		const senders, each = 8, 20
		var all sync.WaitGroup
		var sent, reserved atomic.Int64
		for range senders {
			all.Go(func() {
				for range each {
					r.Congested(since())
					turn, n := r.Reserve(since(), packet)
					reserved.Add(int64(n))
					for {
						now := since()
						at := r.When(now, turn)
						if at <= now {
							break
						}
						time.Sleep(at - now)
					}
					r.Sent(since(), n/2)
					r.Return(n - n/2)
					sent.Add(int64(n / 2))
				}
			})
		}
		all.Wait()
		if got, want := r.sent.Load()-before, sent.Load(); got != want {
			t.Errorf("%d bytes are counted, and %d were sent", got, want)
		}
		if r.reserved < float64(reserved.Load()) || r.Limited() && r.left < r.reserved-mostBytes {
			t.Errorf("%v bytes are reserved, and %v have left; want at least %d reserved", r.reserved, r.left, reserved.Load())
		}
	})
}

// TestLeast checks that CNPs without end leave the lowest rate.
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
	first, n := r.Reserve(now, packet)
	second, _ := r.Reserve(now, packet)
	if n != packet || second-first != packet {
		t.Errorf("%d bytes, and the next turn %v behind", n, second-first)
	}
	if wait := r.time(float64(second) - r.left); wait < 2*time.Millisecond || wait > 4*time.Millisecond {
		t.Errorf("the second packet of 4096 bytes waits for %v at 1.25 MB/s", wait)
	}
}
