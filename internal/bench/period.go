// The phases of a run of a duration: a margin, what is counted, a margin.

package bench

import (
	"sync"
	"sync/atomic"
	"time"
)

// The phases, in order.
const (
	phaseBefore int32 = iota
	phaseSample       // what completes is counted
	phaseAfter
	phaseOver
)

// period moves through the phases by a timer, so that the loops need no clock.
type period struct {
	phase            atomic.Int32
	duration, margin time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	from    time.Time // of the sample
	sampled time.Duration
	over    func() // is called in the last phase
}

func (p *period) reset(duration, margin time.Duration, over func()) {
	p.duration, p.margin, p.sampled, p.over = duration, margin, 0, over
	p.phase.Store(phaseBefore)
}

// start begins the first margin; nothing happens in a run without a duration.
func (p *period) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.duration == 0 {
		return
	}
	if p.margin == 0 {
		p.sample()
		return
	}
	p.timer = time.AfterFunc(p.margin, p.next)
}

func (p *period) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.phase.Load() {
	case phaseBefore:
		p.sample()
	case phaseSample:
		p.sampled = time.Since(p.from)
		p.phase.Store(phaseAfter)
		p.timer = time.AfterFunc(p.margin, p.next)
	case phaseAfter:
		p.phase.Store(phaseOver)
		p.over()
	}
}

func (p *period) sample() {
	p.from = time.Now()
	p.phase.Store(phaseSample)
	p.timer = time.AfterFunc(p.duration-2*p.margin, p.next)
}

// stop ends the timer, whatever the phase.
func (p *period) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.phase.Store(phaseOver)
}
