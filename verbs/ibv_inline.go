//go:build linux && cgo

// The C wall: inline data that cannot be read. C reads it from SGE.Addr as from a
// pointer, and where a region's addresses are not its memory's own (IOVA, ZERO_BASED,
// a DMA-BUF) that is a wild one. So those regions are remembered by lkey, and inline
// data of theirs is refused.

package verbs

import (
	"sync"
	"sync/atomic"
)

// remapped is the lkeys of a device's regions whose addresses are no pointers.
type remapped struct {
	n    atomic.Int32 // how many: programs have none, as a rule, and then it costs no lock
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

// names says whether one of the elements is of such a region.
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

// remap has the region's key known as one whose addresses are no pointers.
func (m *ibvMR) remap(among *remapped) {
	m.among = among
	among.add(m.LKey())
}

// rekeyed follows a change of the region's key.
func (m *ibvMR) rekeyed(old uint32) {
	if key := m.LKey(); m.among != nil && key != old {
		m.among.add(key)
		m.among.remove(old)
	}
}
