//go:build linux && cgo && !nolibibverbs

// The C wall: inline data that C cannot read. C uses SGE.Addr of inline data as a pointer. In regions
// with addresses of their own (IOVA, ZERO_BASED, a DMA-BUF) the address is not a valid pointer.
// Therefore the lkeys of these regions are remembered, and inline data from them is refused.

package verbs

import (
	"sync"
	"sync/atomic"
)

// remapped holds the lkeys of a device's regions whose addresses are not pointers.
type remapped struct {
	n    atomic.Int32 // number of keys; usually 0, and then names needs no lock
	mu   sync.RWMutex
	keys map[uint32]struct{}
}

func (r *remapped) add(lkey uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = make(map[uint32]struct{})
	}
	r.keys[lkey] = struct{}{}
	r.n.Store(int32(len(r.keys)))
}

func (r *remapped) remove(lkey uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.keys, lkey)
	r.n.Store(int32(len(r.keys)))
}

// names reports whether one of the elements names such a region.
func (r *remapped) names(sgl []SGE) bool {
	if r.n.Load() == 0 {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for i := range sgl {
		if _, ok := r.keys[sgl[i].LKey]; ok {
			return true
		}
	}
	return false
}

// remap adds the region's key to the set.
func (m *ibvMR) remap(among *remapped) {
	m.among = among
	among.add(m.LKey())
}

// rekeyed updates the set after a change of the region's key.
func (m *ibvMR) rekeyed(old uint32) {
	if key := m.LKey(); m.among != nil && key != old {
		m.among.add(key)
		m.among.remove(old)
	}
}
