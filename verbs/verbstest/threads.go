// Many goroutines: posting to one queue pair, polling one CQ, closing objects that others use.

package verbstest

import (
	"encoding/binary"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var threadCases = []Case{
	{"threads", "64 post to one queue pair and poll one CQ, 64 wait for receives", func(e *Env) {
		const senders, each, all = 64, 8, 64 * 8
		a, b := e.pair(wiring{cap: verbs.QPCap{MaxSendWR: 32, MaxRecvWR: all, MaxSendSGE: 1, MaxRecvSGE: 1}, cqDepth: all})
		b.receives(all, 0, 16)
		sends, recvs := e.tally(all), e.tally(all)
		var busy sync.WaitGroup
		for p := range senders {
			busy.Go(func() {
				next, end := p*each, (p+1)*each
				var wcs [4]verbs.WC
				for sends.ctx.Err() == nil {
					if next < end {
						binary.NativeEndian.PutUint64(a.bytes(next*16, 8), uint64(next))
						switch err := a.qp.PostSend([]verbs.SendWR{{ID: uint64(next), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: a.sge(next*16, 16)}}); {
						case err == nil:
							next++
						case !errors.Is(err, syscall.ENOMEM): // ENOMEM means that the queue is full
							e.Fatalf("%v", err)
						}
					}
					n, err := a.send.Poll(wcs[:])
					e.ok(err, "Poll")
					for _, wc := range wcs[:n] {
						sends.add(wc)
					}
					if n == 0 {
						time.Sleep(200 * time.Microsecond)
					}
				}
			})
			busy.Go(func() {
				recvs.gather(b.recv, func(wc verbs.WC) {
					recvs.payload(binary.NativeEndian.Uint64(b.bytes(int(wc.ID)*16, 8)))
				})
			})
		}
		busy.Wait()
		sends.complete()
		recvs.complete()
		e.check(len(recvs.payloads) == all, "got %d different messages, want %d", len(recvs.payloads), all)
		e.quiet(a.send, "more completions than sends")
		e.quiet(b.recv, "more completions than receives")
	}},
	{"threads", "8 pairs at once", func(e *Env) {
		var all sync.WaitGroup
		for range 8 {
			a, b := e.rc()
			all.Go(func() { // works may end its goroutine
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
		var turns turns
		for range 4 {
			all.Go(func() {
				defer turns.over()
				var wcs [4]verbs.WC
				for e.Ctx.Err() == nil {
					turns.Add(1)
					if _, err := a.send.Poll(wcs[:]); err != nil { // so that the CQ does not overrun
						e.Errorf("%v", err)
						return
					}
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
		turns.wait(manyTurns)
		e.ok(a.qp.Close(), "Close")
		all.Wait()
	}},
	{"threads", "polling while the CQ is closed", func(e *Env) {
		cq := e.cq(64)
		var all sync.WaitGroup
		var turns turns
		for range 4 {
			all.Go(func() {
				defer turns.over()
				var wcs [4]verbs.WC
				for e.Ctx.Err() == nil {
					turns.Add(1)
					if _, err := cq.Poll(wcs[:]); err != nil {
						e.check(errors.Is(err, net.ErrClosed), "%v", err)
						return
					}
				}
			})
		}
		turns.wait(manyTurns)
		e.ok(cq.Close(), "Close")
		all.Wait()
	}},
	{"threads", "one moves to ERR while others post", func(e *Env) {
		a, b := e.rc()
		b.receives(16, 0, 64)
		wr := a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: a.sge(0, 64)}, b, 0)
		var all sync.WaitGroup
		var posted, completed atomic.Int64
		var turns turns
		stop := make(chan struct{})
		for range 4 {
			all.Go(func() {
				defer turns.over()
				var wcs [4]verbs.WC
				for {
					turns.Add(1)
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
		turns.wait(manyTurns)
		e.ok(a.qp.Modify(&verbs.QPAttr{State: qpstate.Error}, qpstate.MaskState), "Modify")
		turns.wait(manyTurns)
		close(stop)
		all.Wait()
		if rest := int(posted.Load() - completed.Load()); rest > 0 {
			a.sent(rest)
		}
		e.quiet(a.send, "more completions than posts")
	}},
}

// turns counts the iterations of goroutines that never wait. Others wait by this count and not
// by the clock, because in RunSimulated the clock stands still meanwhile.
type turns struct {
	atomic.Int64
	ended atomic.Bool
}

// manyTurns takes some milliseconds.
const manyTurns = 2000

// wait returns after n more turns, or when over was called.
func (t *turns) wait(n int64) {
	for end := t.Load() + n; t.Load() < end && !t.ended.Load(); {
		runtime.Gosched()
	}
}

func (t *turns) over() { t.ended.Store(true) }
