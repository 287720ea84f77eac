// Completions: a Go loop over a CQ.

package verbs

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// completionsBatch is the largest number of completions per poll of a loop.
const completionsBatch = 32

// Completions returns an endless iterator over the CQ's completions. It waits as [CQ.Wait]
// does, and polls in batches:
//
//	for wc, err := range cq.Completions(ctx) {
//		if err != nil {
//			return err // ctx ended, or the CQ was closed; the loop ends
//		}
//		if err := wc.Err(); err != nil { … }
//	}
//
// A failed completion is yielded as a completion. An error is one that [CQ.Wait] returns; it ends
// the loop. Memory is allocated once per loop, not per completion. Completions left by an early
// break go to the next poll, wait or loop. Several goroutines may loop over one CQ; each
// completion goes to one of them.
//
// Implements: int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc),
// int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only),
// int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context),
// void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
func (cq *CQ) Completions(ctx context.Context) iter.Seq2[WC, error] {
	return func(yield func(WC, error) bool) {
		batch := make([]WC, completionsBatch)
		var rest []WC                        // the part of batch not yet yielded
		defer func() { cq.giveBack(rest) }() // also when the loop's body panics
		for {
			n, err := cq.Wait(ctx, batch)
			if err != nil {
				yield(WC{}, err)
				return
			}
			for rest = batch[:n]; len(rest) > 0; {
				wc := rest[0]
				rest = rest[1:]
				if !yield(wc, nil) {
					return
				}
			}
		}
	}
}

// giveBack keeps completions that were polled but not yielded. The next poll returns them.
func (cq *CQ) giveBack(rest []WC) {
	if len(rest) == 0 {
		return
	}
	cq.leftover.put(rest)
	cq.wakeWaiter() // a goroutine may be waiting for them
}

// leftovers are completions that were polled but not yielded. They are older than the completions
// in the device.
type leftovers struct {
	n    atomic.Int32 // len(wcs), so that most polls need no lock
	mu   sync.Mutex
	wcs  []WC
	gone bool
}

func (l *leftovers) put(rest []WC) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone {
		l.wcs = slices.Insert(l.wcs, 0, rest...)
		l.n.Store(int32(len(l.wcs)))
	}
}

// take moves up to len(wcs) leftover completions into wcs.
func (l *leftovers) take(wcs []WC) int {
	if l.n.Load() == 0 {
		return 0
	}
	return l.each(len(wcs), func(i int, wc WC) { wcs[i] = wc })
}

// takeEx is take for an extended poll. The extended fields stay zero.
func (l *leftovers) takeEx(wcs []WCEx) int {
	if l.n.Load() == 0 {
		return 0
	}
	return l.each(len(wcs), func(i int, wc WC) { wcs[i] = WCEx{WC: wc} })
}

func (l *leftovers) each(most int, f func(i int, wc WC)) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(most, len(l.wcs))
	for i, wc := range l.wcs[:n] {
		f(i, wc)
	}
	l.wcs = slices.Delete(l.wcs, 0, n)
	l.n.Store(int32(len(l.wcs)))
	return n
}

// drop discards the completions when the CQ closes.
func (l *leftovers) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wcs, l.gone = nil, true
	l.n.Store(0)
}
