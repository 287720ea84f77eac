// Completions as a Go loop.

package verbs

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// completionsBatch is how many completions one poll of a loop takes at most.
const completionsBatch = 32

// Completions is an endless loop over the CQ's completions, which waits for them as
// [CQ.Wait] does and polls in batches:
//
//	for wc, err := range cq.Completions(ctx) {
//		if err != nil {
//			return err // ctx ended, or the CQ was closed: the loop ends with it
//		}
//		if err := wc.Err(); err != nil { … }
//	}
//
// A completion that failed is a completion, not an error; errors are those of
// [CQ.Wait], and the last thing that the loop yields. Memory is allocated once
// a loop, not for each completion. What was polled for a loop that ended before it
// came to that goes to whoever polls, waits or loops next. Several goroutines may
// loop over one CQ: each completion goes to one of them.
//
// Implements: int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc),
// int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only),
// int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context),
// void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
func (cq *CQ) Completions(ctx context.Context) iter.Seq2[WC, error] {
	return func(yield func(WC, error) bool) {
		batch := make([]WC, completionsBatch)
		var rest []WC                        // of batch
		defer func() { cq.giveBack(rest) }() // also if the loop's body panics
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

// giveBack hands on completions that were polled and not looked at.
func (cq *CQ) giveBack(rest []WC) {
	if len(rest) == 0 {
		return
	}
	cq.left.put(rest)
	cq.wakeWaiter() // somebody may be waiting for these
}

// leftovers are completions that were polled and not looked at. They are older than
// any that the device still has.
type leftovers struct {
	n    atomic.Int32 // len(wcs): a poll looks at this alone, as a rule
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

// take moves up to len(wcs) of them into wcs.
func (l *leftovers) take(wcs []WC) int {
	if l.n.Load() == 0 {
		return 0
	}
	return l.each(len(wcs), func(i int, wc WC) { wcs[i] = wc })
}

// takeEx is take for an extended poll; what only that could tell is lost.
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

// drop is for the CQ's end.
func (l *leftovers) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wcs, l.gone = nil, true
	l.n.Store(0)
}
