// Giving memory back to the system. Go keeps what the collector frees, and collects only when the
// heap has grown. After clients have left, a server may not allocate for long.

package admission

import (
	"runtime/debug"
	"time"
)

const (
	// worthReclaiming is how much clients must have freed before it is worth a collection.
	worthReclaiming = 4 << 20
	// reclaimEvery is the shortest time between two collections.
	reclaimEvery = 2 * time.Second
)

// reclaim is the memory that the next collection will give back. The Desk's lock guards it.
type reclaim struct {
	bytes int64 // freed since the last collection
	due   bool  // a collection is scheduled
}

// freedMemory notes what a client has freed. The lock is held.
func (d *Desk) freedMemory(bytes int64) {
	if d.reclaim.bytes += bytes; d.reclaim.bytes < worthReclaiming || d.reclaim.due {
		return
	}
	d.reclaim.due = true
	time.AfterFunc(reclaimEvery, func() {
		d.mu.Lock()
		d.reclaim = reclaim{}
		d.mu.Unlock()
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

// ownMemory is what a server needs in addition to its clients, in bytes.
const ownMemory = 64 << 20
