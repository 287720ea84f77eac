// Many goroutines: posting to one queue pair, polling one CQ, closing what others
// use.

package verbstest

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var threadCases = []Case{
	{"threads", "64 post to one queue pair, 4 wait on each CQ", func(e *Env) {
		const posters, each, waiters = 64, 8, 4
		a, b := e.pair(wiring{cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: posters * each, MaxSendSGE: 1, MaxRecvSGE: 1}, cqDepth: posters * each})
		b.receives(posters*each, 0, 16)
		var all sync.WaitGroup
		tokens := make(chan struct{}, 64) // places of the send queue
		for range cap(tokens) {
			tokens <- struct{}{}
		}
		for p := range posters {
			all.Go(func() {
				for i := range each {
					off := (p*each + i) * 16
					binary.NativeEndian.PutUint64(a.bytes(off, 8), uint64(p*each+i))
					select {
					case <-tokens:
					case <-e.Ctx.Done():
						return
					}
					if err := a.qp.PostSend([]verbs.SendWR{{ID: uint64(p*each + i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: a.sge(off, 16)}}); err != nil {
						e.Errorf("%v", err)
					}
				}
			})
		}
		sends, recvs := &tally{}, &tally{}
		for range waiters {
			all.Go(func() {
				e.gather(a.send, posters*each, sends, func(verbs.WC) { tokens <- struct{}{} })
			})
			all.Go(func() {
				e.gather(b.recv, posters*each, recvs, func(wc verbs.WC) {
					recvs.payload(binary.NativeEndian.Uint64(b.bytes(int(wc.ID)*16, 8)))
				})
			})
		}
		all.Wait()
		for _, t := range []*tally{sends, recvs} {
			e.check(len(t.ids) == posters*each, "%d of %d requests completed", len(t.ids), posters*each)
		}
		e.check(len(recvs.payloads) == posters*each, "%d different messages of %d", len(recvs.payloads), posters*each)
	}},
	{"threads", "4 poll one CQ", func(e *Env) {
		const n = 30
		a, b := e.rc()
		b.receives(n, 0, 16)
		var all sync.WaitGroup
		got := &tally{}
		for range 4 {
			all.Go(func() {
				var wcs [3]verbs.WC
				for e.Ctx.Err() == nil && got.len() < n {
					k, err := b.recv.Poll(wcs[:])
					e.check(err == nil, "%v", err)
					for _, wc := range wcs[:k] {
						got.add(e, wc)
					}
					if k == 0 {
						time.Sleep(50 * time.Microsecond)
					}
				}
			})
		}
		for range n {
			a.post(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 16)})
		}
		all.Wait()
		e.check(got.len() == n, "%d of %d", got.len(), n)
	}},
	{"threads", "8 pairs at once", func(e *Env) {
		var all sync.WaitGroup
		for range 8 {
			a, b := e.rc()
			all.Go(func() { // works may end its goroutine, and with it only itself
				for range 5 {
					works(a, b)
				}
			})
		}
		all.Wait()
	}},
	{"threads", "8 make and close regions and queue pairs", func(e *Env) {
		var all sync.WaitGroup
		pd, cq := e.pd(), e.cq(64)
		for range 8 {
			all.Go(func() {
				for range 10 {
					mr, err := pd.AllocMR(4096, everything)
					e.ok(err, "AllocMR")
					qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()})
					e.ok(err, "CreateQP")
					e.ok(mr.Close(), "Close")
					e.ok(qp.Close(), "Close")
				}
			})
		}
		all.Wait()
		e.ok(pd.Close(), "Close of the domain")
	}},
	{"threads", "posting while the queue pair is closed", func(e *Env) {
		a, b := e.rc()
		b.receives(16, 0, 64)
		wr := verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for e.Ctx.Err() == nil {
					switch err := a.qp.PostSend([]verbs.SendWR{wr}); {
					case errors.Is(err, net.ErrClosed):
						return
					case err != nil && !errors.Is(err, syscall.ENOMEM):
						e.Errorf("%v", err)
						return
					}
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		e.ok(a.qp.Close(), "Close")
		all.Wait()
	}},
	{"threads", "polling while the CQ is closed", func(e *Env) {
		cq := e.cq(64)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				var wcs [4]verbs.WC
				for e.Ctx.Err() == nil {
					if _, err := cq.Poll(wcs[:]); err != nil {
						e.check(errors.Is(err, net.ErrClosed), "%v", err)
						return
					}
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		e.ok(cq.Close(), "Close")
		all.Wait()
	}},
	{"threads", "one moves to ERR while others post", func(e *Env) {
		a, b := e.rc()
		b.receives(16, 0, 64)
		wr := a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: a.sge(0, 64)}, b, 0)
		var all sync.WaitGroup
		var posted, completed atomic.Int64
		stop := make(chan struct{})
		for range 4 {
			all.Go(func() {
				var wcs [4]verbs.WC
				for {
					select {
					case <-stop:
						return
					default:
					}
					if err := a.qp.PostSend([]verbs.SendWR{wr}); err == nil {
						posted.Add(1)
					} else if !errors.Is(err, syscall.ENOMEM) {
						e.Errorf("%v", err)
						return
					}
					n, err := a.send.Poll(wcs[:])
					e.check(err == nil, "%v", err)
					completed.Add(int64(n))
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		e.ok(a.qp.Modify(&verbs.QPAttr{State: qpstate.Error}, qpstate.MaskState), "Modify")
		time.Sleep(5 * time.Millisecond)
		close(stop)
		all.Wait()
		if rest := int(posted.Load() - completed.Load()); rest > 0 {
			a.sent(rest)
		}
		e.quiet(a.send, "after as many completions as posts")
	}},
	{"threads", "100 wait on 10 CQs of one channel, and are woken by Close", func(e *Env) {
		ch := e.channel()
		var cqs []*verbs.CQ
		var all sync.WaitGroup
		for range 10 {
			cq, err := e.Dev.CreateCQ(verbs.CQInit{Depth: 4, Channel: ch})
			cqs = append(cqs, made(e, cq, err))
			for range 10 {
				all.Go(func() {
					_, err := cq.Wait(e.Ctx, make([]verbs.WC, 1))
					e.fails(err, "Wait", net.ErrClosed)
				})
			}
		}
		time.Sleep(20 * time.Millisecond)
		for _, cq := range cqs {
			e.ok(cq.Close(), "Close")
		}
		all.Wait()
	}},
}

// tally counts completions: each request must have just one, a success.
type tally struct {
	mu       sync.Mutex
	ids      map[uint64]bool
	payloads map[uint64]bool
}

func (t *tally) add(e *Env, wc verbs.WC) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ids == nil {
		t.ids = make(map[uint64]bool)
	}
	e.check(!t.ids[wc.ID] && wc.Status == verbs.WCSuccess, "request %d completed twice, or failed: %v", wc.ID, wc.Status)
	t.ids[wc.ID] = true
}

func (t *tally) payload(v uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.payloads == nil {
		t.payloads = make(map[uint64]bool)
	}
	t.payloads[v] = true
}

func (t *tally) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.ids)
}

// gather waits for completions, with others who do, until there were n in all.
func (e *Env) gather(cq *verbs.CQ, n int, t *tally, each func(verbs.WC)) {
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	go func() { // the others may take the last
		for t.len() < n && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	var wcs [4]verbs.WC
	for t.len() < n {
		k, err := cq.Wait(ctx, wcs[:])
		if err != nil {
			e.check(t.len() >= n, "%d of %d: %v", t.len(), n, err)
			return
		}
		for _, wc := range wcs[:k] {
			each(wc)
			t.add(e, wc)
		}
	}
}
