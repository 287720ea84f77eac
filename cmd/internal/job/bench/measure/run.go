// A run: its queue pairs and their requests, and what all loops share: posting, polling, and
// the end of a measurement.

package measure

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/verbs"
)

// Queues are the objects that a run uses. The queue pairs must be connected before Measure is
// called, and no other goroutine may poll the CQs.
type Queues struct {
	QPs    []*verbs.QP
	SendCQ *verbs.CQ // send CQ of all queue pairs
	RecvCQ *verbs.CQ // receive CQ of all queue pairs
	Memory *verbs.MR // a region of at least Plan.Bytes
	Remote []Remote  // the peer's memory, one per queue pair; not used by Send

	KernelWorks bool // threads of this kernel serve the device, as those of rdma_rxe
}

// Remote is the peer's memory for a queue pair's WRITEs, READs and atomics.
type Remote struct {
	Addr uint64
	RKey uint32
}

// pollBatch is the number of completions per poll, the same as perftest's.
const pollBatch = 16

// Run measures one size after the other.
type Run struct {
	Plan
	on Queues

	// Alive, if not nil, is called several times per second while messages complete. The calls
	// come from another goroutine than Measure's.
	Alive func()

	size  int
	ring  int64 // number of messages that fit into a queue pair's memory and are used in turn
	step  int64 // distance of these messages in bytes
	pairs []pair
	wcs   [pollBatch]verbs.WC

	began   time.Time // zero of the times
	ctx     context.Context
	stopped atomic.Bool     // ctx has ended
	moved   atomic.Int64    // number of completions
	idles   int             // consecutive polls that found nothing
	work    int             // work since the clock was last read, in polls
	yielded time.Duration   // time of the last yield, since the measurement began
	waiting context.Context // ends with ctx, or when the duration is over

	software bool // goroutines of this process serve the device, and a goroutine that polls cannot
	drives   bool // a goroutine that polls serves the device, so a poll costs a system call
	waits    bool // sleeps until a completion event: because of the plan, or because of software
	naps     bool // both ends poll a device of kernel threads that has enough to do

	early int // completions of sends that watch took

	period  period // used with Duration
	counted int64  // messages counted
	peak    peak
	latency recorder
}

// pair is one queue pair and its state in a measurement.
type pair struct {
	qp *verbs.QP

	sends           []verbs.SendWR // PostList requests
	sent, completed int64          // numbers of messages
	local           uint64         // address of its memory
	remote          uint64         // address of the peer's memory

	recvs            [pollBatch]verbs.RecvWR
	reposts          int    // receives in recvs that are not posted yet
	received, posted int64  // messages received, and receives posted for messages
	room             uint64 // address of the memory that it receives into
}

// New returns a run. The plan must be settled.
func New(p Plan, q Queues) (*Run, error) {
	if len(q.QPs) != p.QPs || q.Memory.Len() < p.Bytes() {
		return nil, errors.Errorf("bench: got %d queue pairs and %d bytes of memory; the plan needs %d and %d", len(q.QPs), q.Memory.Len(), p.QPs, p.Bytes())
	}
	if p.sends() && p.Op != Send && len(q.Remote) != p.QPs {
		return nil, errors.Errorf("bench: got the peer's memory for %d of %d queue pairs", len(q.Remote), p.QPs)
	}
	r := &Run{Plan: p, on: q, pairs: make([]pair, p.QPs), software: !q.SendCQ.Spins()}
	r.drives = q.SendCQ.WaitMakesProgress() && !r.software
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

// PostReceives prepares the run for messages of a size, and posts the receives for them. The
// peer must not SEND before PostReceives has returned. In a latency run it may already WRITE,
// so PostReceives does not clear memory, and sizes must be measured in ascending order, each
// once.
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

// makeSends prepares the requests of a queue pair. A list is posted again and again unchanged.
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

// place sets the addresses of message k of a queue pair at both ends.
func (r *Run) place(x *pair, wr *verbs.SendWR, k int64) {
	off := uint64(k % r.ring * r.step)
	wr.SGL[0].Addr, wr.RemoteAddr = x.local+off, x.remote+off
}

// makeReceive prepares one more receive. It posts the prepared receives when they fill a batch;
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

// reportAlive calls Alive from time to time if messages have completed since the last call.
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

// now returns the time since the measurement began, in nanoseconds. It reads the monotonic
// clock once.
func (r *Run) now() int64 { return int64(time.Since(r.began)) }

// poll takes the available completions into wcs, or polls for a while. With Events it sleeps
// until there are some. So it does if polling would take the processor from a device in software. It
// returns none if the duration is over.
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

// look takes the available completions into wcs. It never sleeps.
func (r *Run) look(cq *verbs.CQ) (int, error) {
	if r.drives {
		return r.spin(cq, time.Nanosecond, 1)
	}
	return r.spin(cq, 0, 1)
}

// spin polls until there are completions, for at most long, which is about polls polls.
func (r *Run) spin(cq *verbs.CQ, long time.Duration, polls int) (int, error) {
	n, err := cq.WaitFor(r.ctx, r.wcs[:], verbs.WaitOptions{Spin: long, NoSleep: true})
	if n == 0 && err == nil {
		if r.drives {
			polls = 1
		}
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

// An end that polls sleeps after pollsToNap polls that found nothing, if the device is in
// software or of kernel threads. On a device in software it sleeps for at most longestNap.
const (
	pollsToNap = 64
	longestNap = time.Millisecond
	napWorth   = 1 << 20 // bytes in flight on a device of kernel threads: many times what it moves during a nap
)

// depth returns the number of messages that may be in flight at this end.
func (r *Run) depth() int {
	if r.receivesOnly() {
		return r.RxDepth * r.QPs
	}
	return r.TxDepth * r.QPs
}

// idle runs after polls that found nothing. Other goroutines of this process may serve a device in
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
// ends poll on two processors, the monitor thread is a third program. An end yields anyway if it
// sleeps on a device of its own process.
func (r *Run) worked(polls int) {
	if r.work += polls; r.software || r.drives && r.waits || r.work < pollsToClock {
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
	failed := kit.FirstFailure(r.wcs[:n])
	if !kit.Flushed(failed) {
		return failed
	}
	n, err := r.on.SendCQ.Poll(r.wcs[:])
	if err != nil {
		return err
	}
	if cause := kit.FirstFailure(r.wcs[:n]); cause != nil && !kit.Flushed(cause) {
		return cause
	}
	return failed
}

// over reports whether the duration is over. Without a duration it returns false.
func (r *Run) over() bool { return r.Duration > 0 && r.period.phase.Load() == phaseOver }

// count counts completed messages if they are in the measured time.
func (r *Run) count(n int64) {
	if r.Duration == 0 || r.period.phase.Load() == phaseSample {
		r.counted += n
	}
}
