// Tests of the pacer: the congestion controller and the fair queue of what nobody acknowledges.

package transport

import (
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

const pacedPacket = 4096

// pacing returns a queue pair of UC, its pacer and the time.
func pacing(t *testing.T) (*QP, *pacer, time.Duration) {
	_, a, b := pacedPair(t, verbs.UC)
	return a.qp, &a.node.engine.routes.find(a.node.addr, b.node.addr).pacer, time.Second
}

// sendPaced sends packets for a time, and at most at line bytes per second. It returns the bytes per second that left. Each wait
// ends late.
func (qp *QP) sendPaced(now *time.Duration, d, late time.Duration, line float64) float64 {
	begin, sent := *now, 0
	for *now < begin+d {
		if qp.waitsFor(*now, qp.route) {
			*now = qp.paced.resumes + late
			continue
		}
		qp.paced.built(pacedPacket)
		sent += pacedPacket
		*now += time.Duration(pacedPacket / line * 1e9)
	}
	return float64(sent) / (*now - begin).Seconds()
}

// TestPacedRate checks that what leaves is what the window says, although each wait ends late.
func TestPacedRate(t *testing.T) {
	const rate = 100e6
	for _, late := range []time.Duration{0, 300 * time.Microsecond} {
		qp, p, now := pacing(t)
		p.congested(now)
		sent, begin := 0.0, now
		for range 400 {
			window := rate * usualTrip.Seconds()
			p.controller.window, p.controller.credit, p.cnpAt = int64(window), 0, now // so it does not grow
			p.window.Store(int64(window))
			before := now
			sent += qp.sendPaced(&now, 50*time.Microsecond, late, 1e9) * (now - before).Seconds()
		}
		if got := sent / (now - begin).Seconds(); got < 0.95*rate || got > 1.05*rate {
			t.Errorf("%.4g bytes per second leave with timers that are %v late, want %.4g", got, late, rate)
		}
	}
}

// TestPacedGrowth checks that there is no limit without a CNP, that the window grows by a step per round trip, and not
// beside CNPs, and that a limit that nobody reaches is forgotten.
func TestPacedGrowth(t *testing.T) {
	qp, p, now := pacing(t)
	if qp.sendPaced(&now, time.Millisecond, 0, 1e9); p.limited() {
		t.Fatal("there is a limit before the first CNP")
	}
	p.congested(now)
	now += usualTrip
	p.congested(now)
	before, begin := p.window.Load(), now
	qp.sendPaced(&now, usualTrip-1, 0, 1e9)
	if p.window.Load() != before {
		t.Errorf("the window grows right after a CNP, from %d to %d bytes", before, p.window.Load())
	}
	const trips = 10
	qp.sendPaced(&now, trips*usualTrip, 0, 10e9)
	if grown, steps := p.window.Load()-before, int64((now-begin)/usualTrip); grown < (steps-3)*pacedStep || grown > (steps+1)*pacedStep {
		t.Errorf("in %d round trips the window grows by %d bytes, want %d each", steps, grown, pacedStep)
	}
	qp.sendPaced(&now, 2*unusedFor, 0, 10e6)
	if p.limited() {
		t.Error("a limit that nobody reaches is not forgotten")
	}
	p.congested(now)
	for range 20 { // it grows to its limit, where waiting is no sign that the path is slow
		qp.sendPaced(&now, unusedFor, 0, 100e9)
	}
	if p.limited() {
		t.Error("a limit that does not grow any more is not forgotten")
	}
}

// TestForgottenLimit: nobody waits for a limit that is forgotten in the moment in which it is asked for.
func TestForgottenLimit(t *testing.T) {
	qp, p, now := pacing(t)
	p.congested(now)
	qp.sendPaced(&now, usualTrip, 0, 10e6)
	if now += 2 * unusedFor; qp.waitsFor(now, qp.route) || p.limited() {
		t.Errorf("the queue pair waits until %v; it is %v", qp.paced.resumes, now)
	}
	p.congested(now)
	for !qp.waitsFor(now, qp.route) {
		qp.paced.built(pacedPacket)
	}
	p.window.Store(0) // another queue pair forgets the limit
	if qp.paced.askLater(now); qp.paced.resumes <= now || qp.paced.resumes > now+askAgain {
		t.Errorf("it asks again at %v; it is %v", qp.paced.resumes, now)
	}
}

// TestQuantumWhileAsking: a quantum that comes to a queue pair in the fill in which it has asked is given back at the end.
func TestQuantumWhileAsking(t *testing.T) {
	qp, p, now := pacing(t)
	for range 10 {
		p.congested(now)
	}
	for !qp.waitsFor(now, qp.route) {
		qp.paced.built(pacedPacket)
	}
	p.spent.Store(-pacedPacket)
	p.advance() // by another queue pair
	if qp.waitsFor(now, qp.route) {
		t.Fatal("the queue pair has a quantum, and waits")
	}
	if qp.paced.end(); qp.paced.quantum.Load() != 0 {
		t.Errorf("it keeps %d bytes although it has no more to send", qp.paced.quantum.Load())
	}
}

// TestPacedLeast checks that CNPs without end leave the lowest rate.
func TestPacedLeast(t *testing.T) {
	qp, p, now := pacing(t)
	for range 1000 {
		now += cnpPause
		p.congested(now)
	}
	if p.window.Load() != leastPaced {
		t.Errorf("the window is %d bytes, want %d", p.window.Load(), leastPaced)
	}
	sent := 0
	for begin := now; now < begin+100*time.Millisecond; now += cnpPause {
		p.congested(now)
		if !qp.waitsFor(now, qp.route) {
			qp.paced.built(pacedPacket)
			sent += pacedPacket
		}
	}
	if rate := float64(sent) / 0.1; rate < 1.1e6 || rate > 1.4e6 {
		t.Errorf("%.3g bytes per second leave, want 1.25e6", rate)
	}
}

// manyPaced has 100 queue pairs that wait at the lowest rate, with three messages each.
func manyPaced(t *testing.T) (n *simnet, as, bs []*end) {
	n, a, b := pacedPair(t, verbs.UC)
	as, bs = []*end{a}, []*end{b}
	for range 99 {
		c, d := a.node.end(a.opts), b.node.end(a.opts)
		c.connect(d)
		d.connect(c)
		as, bs = append(as, c), append(bs, d)
	}
	a.slow(b)
	for i := range as {
		as[i].queue(bs[i], 3)
	}
	return n, as, bs
}

// TestWaitersGoOnWhenTheRateRecovers lets 100 queue pairs wait at the lowest rate, and then the CNPs end. At that rate the last
// one would wait for a quarter of a second.
func TestWaitersGoOnWhenTheRateRecovers(t *testing.T) {
	n, as, _ := manyPaced(t)
	begin, steps := n.now, 0
	for i := range as {
		for done := as[i].completed(3); !done(); steps++ {
			if !n.step(n.now+time.Second) || steps > 20*len(as) {
				t.Fatal(steps, "events, and queue pair", i, "waits")
			}
		}
	}
	if took := n.now - begin; took > 4*time.Millisecond {
		t.Errorf("the last one waits for %v; %d events", took, steps)
	}
}

// TestPacedConcurrently checks that nobody of several goroutines waits forever, and that nobody is left in line.
func TestPacedConcurrently(t *testing.T) {
	n, a, b := pacedPair(t, verbs.UC)
	p := &a.qp.route.pacer
	const senders, packets = 8, 200
	var all sync.WaitGroup
	for range senders {
		c, d := a.node.end(a.opts), b.node.end(a.opts)
		c.connect(d)
		all.Go(func() {
			now := n.now
			for sent := 0; sent < packets; now += 10 * time.Microsecond {
				c.qp.mu.Lock()
				p.congested(now)
				if !c.qp.waitsFor(now, c.qp.route) {
					c.qp.paced.built(pacedPacket)
					sent++
				}
				c.qp.mu.Unlock()
			}
			c.qp.mu.Lock()
			c.qp.paced.leave()
			c.qp.unlock()
		})
	}
	all.Wait()
	if p.length.Load() != 0 || p.first != nil || p.last != nil {
		t.Errorf("%d queue pairs are in line", p.length.Load())
	}
}
