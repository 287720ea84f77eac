// The phases of a run with a duration: a margin, the sample, a margin.

package measure

import (
	"sync"
	"sync/atomic"
	"time"
)

// The phases, in order.
const (
	phaseBefore int32 = iota
	phaseSample       // completions are counted
	phaseAfter
	phaseOver
)

// period changes the phase with a timer, so that the loops need not read the clock.
type period struct {
	phase            atomic.Int32
	duration, margin time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	from    time.Time // begin of the sample
	sampled time.Duration
	over    func() // called when the last phase begins
}

func (p *period) reset(duration, margin time.Duration, over func()) {
	p.duration, p.margin, p.sampled, p.over = duration, margin, 0, over
	p.phase.Store(phaseBefore)
}

// start begins the first margin. Without a duration it does nothing.
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

// stop stops the timer in any phase.
func (p *period) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.phase.Store(phaseOver)
}
