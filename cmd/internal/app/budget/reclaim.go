// Giving memory back to the system.

package budget

import (
	"runtime/debug"
	"sync"
	"time"
)

const (
	// worthReclaiming is how much clients must have freed before it is worth a collection.
	worthReclaiming = 4 << 20
	// reclaimEvery is the shortest time between two collections.
	reclaimEvery = 2 * time.Second
)

// Reclaimer gives memory back to the system. Go keeps what the collector frees, and collects only when the
// heap has grown. After clients have left, a server may not allocate for long. The zero value is ready for use;
// several goroutines may call its method at once.
type Reclaimer struct {
	mu    sync.Mutex
	bytes int64 // freed since the last collection
	due   bool  // a collection is scheduled
}

// Freed notes what a client has freed.
func (r *Reclaimer) Freed(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes += bytes; r.bytes < worthReclaiming || r.due {
		return
	}
	r.due = true
	time.AfterFunc(reclaimEvery, func() {
		r.mu.Lock()
		r.bytes, r.due = 0, false
		r.mu.Unlock()
		debug.FreeOSMemory()
	})
}

// Contain sets the limit of Go's memory to the limit for clients plus ownMemory, unless GOMEMLIMIT is
// lower. The collector then works harder near the limit, so garbage of clients that have left does not
// add to the memory. undo restores the limit before.
func Contain(clients int64) (undo func()) {
	before := debug.SetMemoryLimit(-1)
	if limit := clients + ownMemory; limit > 0 && limit < before {
		debug.SetMemoryLimit(limit)
	}
	return func() { debug.SetMemoryLimit(before) }
}
