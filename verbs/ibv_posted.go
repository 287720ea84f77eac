//go:build linux && cgo

// The C wall: what work requests name is not freed while a post may read it.

package verbs

import (
	"math"
	"net"
	"runtime"
	"sync/atomic"
)

// posted keeps a C object that work requests name from being freed while C may be
// reading it, in a post: from hold to release. It counts those who hold it; below 0
// it is ending or gone.
type posted struct{ n atomic.Int32 }

// ending is added to the count by end: nobody else gets hold of the object, so that
// one that is posted with all the time ends too.
const ending = math.MinInt32

// hold is false for an object that is gone, or going.
func (p *posted) hold() bool {
	for n := p.n.Load(); n >= 0; n = p.n.Load() {
		if p.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (p *posted) release() { p.n.Add(-1) }

// end runs destroy when no post holds the object, which takes as long as a post
// does; if destroy fails the object is there again. net.ErrClosed if it is gone.
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
