// Counting completions that several goroutines poll.

package verbstest

import (
	"context"
	"sync"

	"github.com/rawverbs/rawverbs/verbs"
)

// tally counts completions up to a number. Each request must complete exactly once, with
// success.
type tally struct {
	e    *Env
	want int
	ctx  context.Context // ends with the last completion, or with the case's time
	end  context.CancelFunc

	mu       sync.Mutex
	ids      map[uint64]bool
	payloads map[uint64]bool
}

func (e *Env) tally(want int) *tally {
	t := &tally{e: e, want: want, ids: make(map[uint64]bool), payloads: make(map[uint64]bool)}
	t.ctx, t.end = context.WithCancel(e.Ctx)
	e.Cleanup(func() error { t.end(); return nil })
	return t
}

func (t *tally) add(wc verbs.WC) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.e.check(!t.ids[wc.ID] && wc.Status == verbs.WCSuccess, "request %d completed twice, or failed: %v", wc.ID, wc.Status)
	t.ids[wc.ID] = true
	if len(t.ids) == t.want {
		t.end()
	}
}

func (t *tally) payload(v uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.payloads[v] = true
}

// complete reports a fault unless all requests have completed.
func (t *tally) complete() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.e.check(len(t.ids) == t.want, "%d of %d requests completed", len(t.ids), t.want)
}

// gather waits for completions, together with other goroutines, until all requests have
// completed.
func (t *tally) gather(cq *verbs.CQ, each func(verbs.WC)) {
	var wcs [4]verbs.WC
	for {
		n, err := cq.Wait(t.ctx, wcs[:])
		if t.ctx.Err() != nil && n == 0 {
			return
		}
		t.e.ok(err, "Wait")
		for _, wc := range wcs[:n] {
			each(wc)
			t.add(wc)
		}
	}
}
