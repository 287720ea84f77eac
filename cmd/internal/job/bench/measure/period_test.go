package measure

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestPeriod checks the times of the phases.
func TestPeriod(t *testing.T) {
	for _, margin := range []time.Duration{0, 2 * time.Second} {
		t.Run(fmt.Sprintf("margin %v", margin), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const duration = 10 * time.Second
				var p period
				over := false
				p.reset(duration, margin, func() { over = true })
				phase := func(after time.Duration, want int32) {
					t.Helper()
					time.Sleep(after)
					synctest.Wait()
					p.mu.Lock()
					defer p.mu.Unlock()
					if got := p.phase.Load(); got != want || over != (want == phaseOver) {
						t.Errorf("phase %d, over %v; want phase %d", got, over, want)
					}
				}
				phase(time.Hour, phaseBefore) // it has not started
				p.start()
				if margin > 0 {
					phase(margin-1, phaseBefore)
					phase(1, phaseSample)
				}
				phase(duration-2*margin-1, phaseSample)
				if margin > 0 {
					phase(1, phaseAfter)
					phase(margin-1, phaseAfter)
				}
				phase(1, phaseOver)
				p.stop()
				if want := duration - 2*margin; p.sampled != want {
					t.Errorf("the sample took %v, want %v", p.sampled, want)
				}
			})
		})
	}
}

// started reports whether a run with a duration is in its first phase.
func (r *Run) started() bool {
	r.period.mu.Lock()
	defer r.period.mu.Unlock()
	return r.period.timer != nil
}

// TestDuration checks that a run with a duration counts completions between its margins, and
// ends by itself at both ends. The test goes through the phases itself.
func TestDuration(t *testing.T) {
	for _, p := range []Plan{
		plan(Send, false, nil), plan(Write, false, nil), plan(Send, false, func(p *Plan) { p.Both = true }),
		plan(Write, false, func(p *Plan) { p.Both = true }),
		plan(Send, true, nil), plan(Write, true, nil), plan(Read, true, nil),
	} {
		t.Run(fmt.Sprintf("%v, latency %v, both %v", p.Op, p.Latency, p.Both), func(t *testing.T) {
			p.Size, p.Duration, p.Margin = 512, 24*time.Hour, time.Hour
			e := connect(t, p)
			runs := []*Run{e.client}
			if p.Client = false; !p.Passive() {
				runs = append(runs, e.server)
			}
			type results struct {
				client, server Result
				err            error
			}
			over := make(chan results, 1)
			go func() {
				client, server, err := e.measure(t, p.Size)
				over <- results{client, server, err}
			}()
			for _, r := range runs {
				testkit.Until(t, "begin of the run", r.started)
			}
			move := func() {
				for _, r := range runs {
					before := r.moved.Load()
					testkit.Until(t, "completion", func() bool { return r.moved.Load() > before+20 })
				}
			}
			for range 3 { // to the sample, to the second margin, to the end
				move()
				for _, r := range runs {
					r.period.next()
				}
			}
			got := testkit.Receive(t, over, "end of the run")
			if got.err != nil {
				t.Fatal(got.err)
			}
			p.Client = true
			checkResult(t, "client", p, got.client)
			if p.Client = false; !p.Passive() {
				checkResult(t, "server", p, got.server)
			}
			for _, r := range runs {
				if all := r.pairs[0].completed + r.pairs[0].received; !p.Latency && r.counted >= all {
					t.Errorf("client %v: counted %d messages, and there were %d in all phases", r.Client, r.counted, all)
				}
			}
		})
	}
}

// TestAlive checks that Alive is called only while messages complete.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		called := 0
		r := &Run{Alive: func() { called++ }}
		stop := r.reportAlive()
		want := func(what string, n int) {
			t.Helper()
			synctest.Wait()
			if called != n {
				t.Errorf("Alive was called %d times %s, want %d", called, what, n)
			}
			called = 0
		}
		time.Sleep(time.Hour + time.Microsecond) // not in step with the calls
		want("although nothing completed", 0)
		for range 999 {
			time.Sleep(time.Millisecond)
			r.moved.Add(1)
		}
		time.Sleep(time.Second)
		want("in a second with messages and one without", 10)
		stop()
		r.moved.Add(1)
		time.Sleep(time.Hour)
		want("after the run", 0)
	})
}

// TestAliveInARun checks that a run calls Alive.
func TestAliveInARun(t *testing.T) {
	p := plan(Send, true, func(p *Plan) { p.Duration, p.Margin = 24*time.Hour, 0 })
	e := connect(t, p)
	var called atomic.Int32
	e.server.Alive = func() { called.Add(1) }
	over := make(chan error, 1)
	go func() {
		_, _, err := e.measure(t, p.Size)
		over <- err
	}()
	testkit.Until(t, "call of Alive", func() bool { return called.Load() > 0 })
	for range 2 {
		e.client.period.next()
		e.server.period.next()
	}
	if err := testkit.Receive(t, over, "end of the run"); err != nil {
		t.Error(err)
	}
}
