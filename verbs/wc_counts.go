// Counting completions, for metrics.

package verbs

import (
	"iter"
	"sync/atomic"
)

// numWCStatuses is the number of statuses of enum ibv_wc_status. The last two belong to tag matching.
const numWCStatuses = int(WCGeneralErr) + 3

// WCCounts counts completions by their status: see [OpenOptions]. The zero value is ready for use.
// Several devices may share a WCCounts, and several goroutines may call its methods at once.
type WCCounts struct {
	counts [numWCStatuses + 1]atomic.Uint64 // the last one counts unknown statuses
}

// All iterates over all statuses and the numbers of completions that have had them. Statuses of a newer
// libibverbs count as one status behind the known ones, which All leaves out while it is 0.
func (c *WCCounts) All() iter.Seq2[WCStatus, uint64] {
	return func(yield func(WCStatus, uint64) bool) {
		for i := range c.counts {
			if n := c.counts[i].Load(); (n > 0 || i < numWCStatuses) && !yield(WCStatus(i), n) {
				return
			}
		}
	}
}

// add counts completions. Nearly always all of them succeeded: one atomic addition per poll.
func (c *WCCounts) add(wcs []WC) {
	succeeded := uint64(0)
	for i := range wcs {
		if s := wcs[i].Status; s == WCSuccess {
			succeeded++
		} else {
			c.counts[min(uint32(s), uint32(numWCStatuses))].Add(1)
		}
	}
	if succeeded > 0 {
		c.counts[WCSuccess].Add(succeeded)
	}
}

func (c *WCCounts) addEx(wcs []WCEx) {
	for i := range wcs {
		c.counts[min(uint32(wcs[i].Status), uint32(numWCStatuses))].Add(1)
	}
}
