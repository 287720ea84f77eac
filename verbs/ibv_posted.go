//go:build linux && cgo && !nolibibverbs

// The C wall: objects that work requests name are not freed while a post may read them.

package verbs

import (
	"math"
	"net"
	"runtime"
	"sync/atomic"
)

// posted keeps a C object alive during posts that name it: from hold to release. n is the number of
// holds. A negative n means that the object is closing or closed.
type posted struct{ n atomic.Int32 }

// ending is added to n by end. After that nobody can hold the object, so posters cannot starve
// Close.
const ending = math.MinInt32

// hold returns false if the object is closing or closed.
func (p *posted) hold() bool {
	for n := p.n.Load(); n >= 0; n = p.n.Load() {
		if p.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (p *posted) release() { p.n.Add(-1) }

// end waits until no post holds the object, and runs destroy. The wait lasts as long as one post. If
// destroy fails, the object can be held again. end returns net.ErrClosed if the object is closed.
func (p *posted) end(destroy func() error) error {
	for n := p.n.Load(); ; n = p.n.Load() {
		if n < 0 {
			return net.ErrClosed
		}
		if p.n.CompareAndSwap(n, n+ending) {
			break
		}
	}
	for p.n.Load() != ending {
		runtime.Gosched()
	}
	err := destroy()
	if err != nil {
		p.n.Store(0)
	}
	return err
}
