// A run: its queue pairs and the requests made for them, and what all loops share:
// posting, polling, and the ways in which a measuring ends.

package bench

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// Queues are what a run works on. They must be connected when it measures, and
// polled by nobody else.
type Queues struct {
	QPs    []*verbs.QP
	SendCQ *verbs.CQ // of all queue pairs, as is
	RecvCQ *verbs.CQ // this one
	Memory *verbs.MR // of Plan.Bytes or more
	Remote []Remote  // the peer's memory, by queue pair; by Send not used

	KernelWorks bool // the device is threads of this kernel, as rdma_rxe is
}

// Remote is where a queue pair's WRITEs, READs and atomics begin: what the peer says.
type Remote struct {
	Addr uint64
	RKey uint32
}

// pollBatch is how many completions are taken in one call, as many as perftest takes.
const pollBatch = 16

// Run measures, one size after the other.
type Run struct {
	Plan
	on Queues

	// Alive, if it is not nil, is called several times a second while messages move,
	// by another goroutine than Measure's.
	Alive func()

	size  int
	ring  int64 // messages of the size that go round in a queue pair's memory
	step  int64 // bytes from one to the next
	pairs []pair
	wcs   [pollBatch]verbs.WC

	began   time.Time // what times are counted from
	ctx     context.Context
	stopped atomic.Bool     // ctx has ended
	moved   atomic.Int64    // completions
	idles   int             // polls that found nothing, one after the other
	work    int             // since the clock was looked at, in polls
	yielded time.Duration   // when, since the measuring began
	waiting context.Context // ends with ctx, and when the duration is over

	software bool // the device is part of this process: it gets on while this end sleeps
	waits    bool // for events: by the plan, or since the device is such a one
	naps     bool // both ends poll, the device is of the kernel's threads, and has enough to do

	period  period // with Duration
	counted int64  // messages in it
	peak    peak
	latency recorder
}

// pair is one queue pair's part of a measuring.
type pair struct {
	qp *verbs.QP

	sends           []verbs.SendWR // PostList of them
	sent, completed int64          // messages
	local           uint64         // of its memory
	remote          uint64

	recvs            [pollBatch]verbs.RecvWR
	reposts          int   // made in recvs, not yet posted
	received, posted int64 // messages, and receives for them
	room             uint64
}

// New makes a run. The plan must be settled.
func New(p Plan, q Queues) (*Run, error) {
	if len(q.QPs) != p.QPs || q.Memory.Len() < p.Bytes() {
		return nil, errors.Errorf("bench: %d queue pairs and %d bytes for a plan of %d and %d", len(q.QPs), q.Memory.Len(), p.QPs, p.Bytes())
	}
	if p.sends() && p.Op != Send && len(q.Remote) != p.QPs {
		return nil, errors.Errorf("bench: the peer's memory is known for %d of %d queue pairs", len(q.Remote), p.QPs)
	}
	r := &Run{Plan: p, on: q, pairs: make([]pair, p.QPs), software: q.SendCQ.WaitMakesProgress()}
	r.waits = p.Events || r.software
	for i := range r.pairs {
		x := &r.pairs[i]
		x.qp = q.QPs[i]
		x.local = q.Memory.Addr() + uint64(i*p.slot())
		x.room = q.Memory.Addr() + uint64(p.RemoteOffset(i))
		if i < len(q.Remote) {
			x.remote = q.Remote[i].Addr
		}
		x.sends = make([]verbs.SendWR, p.PostList)
		for k := range x.sends {
			x.sends[k].SGL = make([]verbs.SGE, 1)
		}
		for k := range x.recvs {
			x.recvs[k].SGL = make([]verbs.SGE, 1)
		}
	}
	if p.Latency {
		r.latency = newRecorder()
	}
	return r, nil
}

// PostReceives makes the run ready for messages of a size, and posts the receives for
// them. The peer must not SEND before it has returned; it may WRITE, for latency, so
// memory is left as it is, and a size is measured once, or after smaller ones.
func (r *Run) PostReceives(size int) error {
	r.size = size
	r.ring, r.step = r.places(size)
	r.naps = r.on.KernelWorks && (r.Op == Send || r.Both) && !r.Latency && r.depth()*size >= napWorth
	for i := range r.pairs {
		x := &r.pairs[i]
		x.sent, x.completed, x.received, x.posted, x.reposts = 0, 0, 0, 0, 0
		r.makeSends(i)
		if !r.receives() {
			continue
		}
		for k := range x.recvs {
			x.recvs[k].ID = uint64(i)
			x.recvs[k].SGL[0] = verbs.SGE{Length: uint32(size), LKey: r.on.Memory.LKey()}
		}
		for x.posted < int64(r.RxDepth) {
			if err := r.makeReceive(x); err != nil {
				return err
			}
		}
		if err := x.flush(); err != nil {
			return err
		}
	}
	return nil
}

// makeSends makes the requests of a queue pair: with a list all that will be posted,
// again and again.
func (r *Run) makeSends(i int) {
	x := &r.pairs[i]
	for k := range x.sends {
		wr := &x.sends[k]
		*wr = verbs.SendWR{ID: uint64(i), Opcode: r.Op.opcode(), SGL: wr.SGL}
		wr.SGL[0] = verbs.SGE{Length: uint32(r.size), LKey: r.on.Memory.LKey()}
		if (k+1)%r.CQMod == 0 {
			wr.Flags |= verbs.SendSignaled
		}
		if r.size <= r.Inline {
			wr.Flags |= verbs.SendInline
		}
		if r.Op != Send && i < len(r.on.Remote) {
			wr.RKey = r.on.Remote[i].RKey
		}
		if r.Op == Atomic {
			wr.CompareAdd = 1
		}
		r.place(x, wr, int64(k))
	}
}

// place sets where message k of a queue pair lies at both ends.
func (r *Run) place(x *pair, wr *verbs.SendWR, k int64) {
	off := uint64(k % r.ring * r.step)
	wr.SGL[0].Addr, wr.RemoteAddr = x.local+off, x.remote+off
}

// makeReceive makes one more receive. It posts what it has made when that is a batch;
// flush posts the rest.
func (r *Run) makeReceive(x *pair) error {
	if x.reposts == pollBatch {
		if err := x.flush(); err != nil {
			return err
		}
	}
	x.recvs[x.reposts].SGL[0].Addr = x.room + uint64(x.posted%r.ring*r.step)
	x.reposts++
	x.posted++
	return nil
}

func (x *pair) flush() error {
	if x.reposts == 0 {
		return nil
	}
	err := x.qp.PostRecv(x.recvs[:x.reposts])
	x.reposts = 0
	return err
}

// Measure runs the measurement for the size given to PostReceives. It returns when this
// end has sent and received everything, or when the duration is over; a passive end
// returns at once. Requests can be outstanding afterwards only if there is a duration. The
// error is the cause of the end of ctx, or that of a failed request.
func (r *Run) Measure(ctx context.Context) (Result, error) {
	r.ctx, r.began = ctx, time.Now()
	r.counted, r.idles = 0, 0
	r.peak.reset(r.Peak(), r.total(), r.PostList)
	r.latency.reset()
	r.stopped.Store(false)
	r.yielded, r.work = 0, 0
	defer context.AfterFunc(ctx, func() { r.stopped.Store(true) })()
	defer r.reportAlive()()
	var over context.CancelFunc
	r.waiting, over = context.WithCancel(ctx)
	defer over()
	r.period.reset(r.Duration, r.Margin, over)
	defer r.period.stop()
	var err error
	switch {
	case r.Passive():
	case r.Latency && r.Op == Send:
		err = r.pingPongSends()
	case r.Latency && r.Op == Write:
		err = r.pingPongWrites()
	case r.Latency:
		err = r.oneByOne()
	case r.Op == Send && r.Both:
		err = r.both()
	case r.receivesOnly():
		err = r.receive()
	default:
		err = r.send()
	}
	if err != nil {
		return Result{}, err
	}
	return r.result(), nil
}

// reportAlive calls Alive from time to time, if completions have come since.
func (r *Run) reportAlive() (stop func()) {
	if r.Alive == nil {
		return func() {}
	}
	end := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		ticks := time.NewTicker(100 * time.Millisecond)
		defer ticks.Stop()
		for last := r.moved.Load(); ; {
			select {
			case <-end:
				return
			case <-ticks.C:
				if now := r.moved.Load(); now != last {
					last = now
					r.Alive()
				}
			}
		}
	})
	return func() {
		close(end)
		reporting.Wait()
	}
}

// now is the time since the measuring began, in nanoseconds: one read of the
// monotonic clock.
func (r *Run) now() int64 { return int64(time.Since(r.began)) }

// poll takes the completions that there are into wcs, or polls for a while. With Events
// it sleeps until there are some, and on a device in software too: polling would take the
// processor from the device. It returns without any when the duration is over.
func (r *Run) poll(cq *verbs.CQ) (n int, err error) {
	if !r.waits {
		return r.spin(cq, time.Nanosecond, pollsAtOnce)
	}
	n, err = cq.Wait(r.waiting, r.wcs[:])
	if err != nil && r.over() {
		return 0, nil
	}
	return r.took(n, err)
}

// look takes the completions that there are into wcs, and never sleeps for them.
func (r *Run) look(cq *verbs.CQ) (int, error) { return r.spin(cq, 0, 1) }

// spin polls for so long, which takes about so many polls, until there are completions.
func (r *Run) spin(cq *verbs.CQ, long time.Duration, polls int) (int, error) {
	n, err := cq.WaitFor(r.ctx, r.wcs[:], verbs.WaitOptions{Spin: long, NoSleep: true})
	if n == 0 && err == nil {
		return 0, r.idle(polls)
	}
	return r.took(n, err)
}

// took checks the first n completions in wcs.
func (r *Run) took(n int, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	if r.stopped.Load() {
		return 0, context.Cause(r.ctx)
	}
	r.idles = 0
	for i := range r.wcs[:n] {
		if r.wcs[i].Status != verbs.WCSuccess {
			return 0, r.failure(n)
		}
	}
	r.moved.Add(int64(n))
	return n, nil
}

// An end that polls sleeps after this many polls that found nothing, on a device in
// software or of the kernel's threads. On a device in software it sleeps for at most
// longestNap.
const (
	pollsToNap = 64
	longestNap = time.Millisecond
	napWorth   = 1 << 20 // bytes outstanding on a device of the kernel's threads: many times what it moves in a nap
)

// depth is how many messages may be outstanding at this end.
func (r *Run) depth() int {
	if r.receivesOnly() {
		return r.RxDepth * r.QPs
	}
	return r.TxDepth * r.QPs
}

// idle runs after polls that found nothing. Goroutines of this process serve a device in
// software. The runtime wakes them for packets when a processor has nothing to do, so this
// one sleeps for a moment, and longer if nothing comes. runtime.Gosched would not help:
// while a goroutine can run, the runtime looks for packets every 10 ms only.
//
// Sleeping does not help other devices, and it wakes threads that take the processor from
// the peer, so an end yields only as often as worked says. A device of the kernel's
// threads also needs a processor. If both ends poll there may be none free, so with enough
// outstanding work the end sleeps for a moment.
func (r *Run) idle(polls int) error {
	if r.stopped.Load() {
		return context.Cause(r.ctx)
	}
	r.idles += polls
	switch {
	case r.software && r.idles%pollsToNap == 0:
		time.Sleep(min(longestNap, time.Microsecond<<min(r.idles/pollsToNap-1, 10)))
	case r.naps && r.idles%pollsToNap == 0:
		nap()
	}
	r.worked(polls)
	return nil
}

// How many polls one call into C makes, and how many polls pass between two looks at the
// clock. A post counts as several polls, more if the device may send within it.
const (
	pollsAtOnce  = pollsToNap
	pollsToClock = 32
	pollsPerPost = 8
	bytesPerPoll = 512
)

// yieldEvery is how often an end that polls yields.
const yieldEvery = 4 * time.Millisecond

// worked yields from time to time. Go's monitor thread preempts a goroutine that runs for
// 10 ms, and then checks every 20 µs for a while whether there is more to do. Where two
// ends poll on two processors, the monitor thread is a third program.
func (r *Run) worked(polls int) {
	if r.work += polls; r.software || r.work < pollsToClock {
		return
	}
	r.work = 0
	if now := time.Duration(r.now()); now-r.yielded > yieldEvery {
		r.yielded = now
		runtime.Gosched()
	}
}

// post posts a queue pair's requests.
func (r *Run) post(x *pair) error {
	err := x.qp.PostSend(x.sends)
	r.worked(pollsPerPost + len(x.sends)*r.size/bytesPerPoll)
	return err
}

// failure returns why one of n completions failed: the first failure that is not a flush.
// If all are flushed receives it looks in the send queues.
func (r *Run) failure(n int) error {
	var flushed error
	for range 2 {
		for i := range r.wcs[:n] {
			switch wc := &r.wcs[i]; {
			case wc.Status == verbs.WCWRFlushErr && flushed == nil:
				flushed = wc.Err()
			case wc.Status != verbs.WCSuccess && wc.Status != verbs.WCWRFlushErr:
				return wc.Err()
			}
		}
		var err error
		if n, err = r.on.SendCQ.Poll(r.wcs[:]); err != nil {
			return err
		}
	}
	return flushed
}

// over says whether the duration is over. Without a duration it is not.
func (r *Run) over() bool { return r.Duration > 0 && r.period.phase.Load() == phaseOver }

// count counts completed messages, within the time that is measured.
func (r *Run) count(n int64) {
	if r.Duration == 0 || r.period.phase.Load() == phaseSample {
		r.counted += n
	}
}
