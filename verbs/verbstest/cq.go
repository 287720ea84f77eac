// Completion queues: depth, polling, waiting.

package verbstest

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var cqCases = []Case{
	{"cq", "create", func(e *Env) {
		for _, depth := range []int{1, 2, 100, 1000} {
			cq := e.cq(depth)
			e.check(cq.Depth() >= depth, "the depth is %d, asked for %d", cq.Depth(), depth)
		}
	}},
	{"cq", "as deep as the device allows", func(e *Env) {
		cq, err := e.Dev.CreateCQ(verbs.CQInit{Depth: e.device().MaxCQE})
		made(e, cq, err)
	}},
	badCQ("depth 0", func(*Env) verbs.CQInit { return verbs.CQInit{} }),
	badCQ("depth -1", func(*Env) verbs.CQInit { return verbs.CQInit{Depth: -1} }),
	badCQ("deeper than the device", func(e *Env) verbs.CQInit { return verbs.CQInit{Depth: e.device().MaxCQE + 1} }),
	badCQ("vector 9999", func(*Env) verbs.CQInit { return verbs.CQInit{Depth: 1, Vector: 9999} }),

	{"cq", "poll an empty CQ", func(e *Env) {
		cq := e.cq(4)
		var wcs [2]verbs.WC
		for _, into := range [][]verbs.WC{wcs[:], wcs[:0], nil} {
			n, err := cq.Poll(into)
			e.check(n == 0 && err == nil, "got %d, %v", n, err)
		}
	}},
	{"cq", "spin on an empty CQ", func(e *Env) {
		cq := e.cq(4)
		var wcs [2]verbs.WC
		for _, long := range []time.Duration{time.Nanosecond, 0} {
			n, err := cq.WaitFor(e.Ctx, wcs[:], verbs.WaitOptions{Spin: long, NoSleep: true})
			e.check(n == 0 && err == nil, "a spin of %v: got %d, %v", long, n, err)
		}
		_, err := cq.WaitFor(e.Ctx, wcs[:], verbs.WaitOptions{Spin: -1, NoSleep: true})
		e.fails(err, "a spin of -1ns", syscall.EINVAL)
		_, err = cq.WaitFor(e.Ctx, nil, verbs.WaitOptions{NoSleep: true})
		e.fails(err, "a spin without room", syscall.EINVAL)
	}},
	{"cq", "spin until a completion arrives", func(e *Env) {
		a, b := e.rc()
		b.receives(1, 0, 64)
		time.AfterFunc(testkit.Moment, func() {
			if err := a.qp.PostSend([]verbs.SendWR{{ID: 7, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: a.sge(0, 5)}}); err != nil {
				e.Errorf("%v", err)
			}
		})
		var wcs [2]verbs.WC
		n := 0
		for n == 0 && e.Ctx.Err() == nil {
			var err error
			n, err = a.send.WaitFor(e.Ctx, wcs[:], verbs.WaitOptions{Spin: time.Nanosecond, NoSleep: true})
			e.ok(err, "WaitFor")
			time.Sleep(10 * time.Microsecond) // simulated time stands still while a goroutine spins
		}
		e.check(n == 1 && wcs[0].ID == 7 && wcs[0].Status == verbs.WCSuccess, "got %d: %+v", n, wcs[0])
		b.got()
	}},
	{"cq", "both ends spin", func(e *Env) {
		const trips = 50
		a, b := e.rc()
		answered := make(chan error, 1)
		a.receives(1, 64, 64)
		b.receives(1, 0, 64)
		one := func(ctx context.Context, cq *verbs.CQ) error {
			var wcs [1]verbs.WC
			if _, err := cq.WaitFor(ctx, wcs[:], verbs.WaitOptions{Spin: e.patience}); err != nil {
				return err
			}
			return wcs[0].Err()
		}
		take := func(ctx context.Context, x *end) error {
			if err := one(ctx, x.recv); err != nil {
				return err
			}
			return x.qp.PostRecv([]verbs.RecvWR{{SGL: x.sge(64, 64)}})
		}
		send := func(ctx context.Context, x *end) error {
			if err := x.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: x.sge(0, 5)}}); err != nil {
				return err
			}
			return one(ctx, x.send)
		}
		ctx, cancel := e.patient()
		defer cancel()
		go func() {
			var err error
			for i := 0; i < trips && err == nil; i++ {
				if err = take(ctx, b); err == nil {
					err = send(ctx, b)
				}
			}
			answered <- err
		}()
		for range trips {
			e.ok(send(ctx, a), "sending")
			e.ok(take(ctx, a), "receiving")
		}
		e.ok(<-answered, "the other end")
	}},
	{"cq", "close twice", func(e *Env) {
		cq := e.cq(4)
		e.ok(cq.Close(), "Close")
		e.ok(cq.Close(), "the second Close")
	}},
	{"cq", "use after close", func(e *Env) {
		cq := e.cq(4)
		e.ok(cq.Close(), "Close")
		_, err := cq.Poll(make([]verbs.WC, 1))
		e.fails(err, "Poll", net.ErrClosed)
		_, err = cq.WaitFor(e.Ctx, make([]verbs.WC, 1), verbs.WaitOptions{NoSleep: true})
		e.fails(err, "WaitFor", net.ErrClosed)
		_, err = cq.Wait(e.Ctx, make([]verbs.WC, 1))
		e.fails(err, "Wait", net.ErrClosed)
		e.fails(cq.Arm(false), "Arm", net.ErrClosed)
	}},
	{"cq", "close with a queue pair", func(e *Env) {
		pd, send, recv := e.pd(), e.cq(8), e.cq(8)
		qp := e.qp(pd, verbs.QPInit{Type: verbs.RC, SendCQ: send, RecvCQ: recv, Cap: defaultCap()})
		busy(e, send.Close(), "1 QP")
		busy(e, recv.Close(), "1 QP")
		e.ok(qp.Close(), "Close of the queue pair")
		e.ok(send.Close(), "Close")
		e.ok(recv.Close(), "Close")
	}},
	{"cq", "close a channel with a CQ", func(e *Env) {
		ch := e.channel()
		cq, err := e.Dev.CreateCQ(verbs.CQInit{Depth: 4, Channel: ch})
		made(e, cq, err)
		busy(e, ch.Close(), "1 CQ")
		e.ok(cq.Close(), "Close of the CQ")
		e.ok(ch.Close(), "Close")
		e.ok(ch.Close(), "the second Close")
	}},
	{"cq", "wait without a channel", func(e *Env) {
		cq, err := e.Dev.CreateCQ(verbs.CQInit{Depth: 4})
		made(e, cq, err)
		_, err = cq.Wait(e.Ctx, make([]verbs.WC, 1))
		e.fails(err, "Wait", syscall.EINVAL)
	}},
	{"cq", "wait until a deadline", func(e *Env) {
		_, err := e.cq(4).Wait(e.soon(), make([]verbs.WC, 1))
		e.fails(err, "Wait", context.DeadlineExceeded)
	}},
	{"cq", "a wait is cancelled", func(e *Env) {
		ctx, cancel := context.WithCancelCause(e.Ctx)
		why := errors.New("enough")
		time.AfterFunc(testkit.Moment, func() { cancel(why) })
		_, err := e.cq(4).Wait(ctx, make([]verbs.WC, 1))
		e.fails(err, "Wait", why)
	}},
	{"cq", "a wait is woken by a completion", func(e *Env) {
		a, b := e.rc()
		b.receives(1, 0, 64)
		time.AfterFunc(testkit.Moment, func() {
			if err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGL: a.sge(0, 5)}}); err != nil {
				e.Errorf("%v", err)
			}
		})
		b.got()
	}},
	{"cq", "100 waiters are woken by Close", func(e *Env) {
		cq := e.cq(4)
		var waiters sync.WaitGroup
		for range 100 {
			waiters.Go(func() {
				_, err := cq.Wait(e.Ctx, make([]verbs.WC, 1))
				e.fails(err, "Wait", net.ErrClosed)
			})
		}
		time.Sleep(30 * time.Millisecond)
		e.ok(cq.Close(), "Close")
		waiters.Wait()
	}},
	{"cq", "each of 20 waiters gets a completion", func(e *Env) {
		x, n := e.flusher(20)
		var waiters sync.WaitGroup
		for range n {
			waiters.Go(func() {
				got, err := x.recv.Wait(e.Ctx, make([]verbs.WC, 1))
				e.check(got == 1 && err == nil, "got %d, %v", got, err)
			})
		}
		time.Sleep(30 * time.Millisecond)
		e.ok(x.machine.ToError(), "ToError")
		waiters.Wait()
	}},
	{"cq", "one poll takes all, in order", func(e *Env) {
		x, n := e.flusher(20)
		e.ok(x.machine.ToError(), "ToError")
		first := x.received(1)
		wcs := make([]verbs.WC, n)
		got := 1
		for got < n && e.Ctx.Err() == nil {
			k, err := x.recv.Poll(wcs[got:])
			e.ok(err, "Poll")
			got += k
		}
		wcs[0] = first[0]
		for i := range wcs {
			e.check(wcs[i].ID == uint64(i), "completion %d is of request %d", i, wcs[i].ID)
		}
		e.quiet(x.recv, "an emptied CQ")
	}},
	{"cq", "polled one by one", func(e *Env) {
		x, n := e.flusher(10)
		e.ok(x.machine.ToError(), "ToError")
		for i := range n {
			e.check(x.received(1)[0].ID == uint64(i), "the completion is not of receive %d", i)
		}
	}},
	{"cq", "sends and receives complete apart", func(e *Env) {
		a, b := e.rc()
		b.receives(1, 0, 64)
		a.signaled(verbs.SendWR{ID: 5, Opcode: verbs.OpSend, SGL: a.sge(0, 5)})
		a.done()
		b.got()
		e.quiet(a.recv, "the sender's receive CQ")
		e.quiet(b.send, "the receiver's send CQ")
	}},
	{"cq", "shared by two queue pairs", func(e *Env) {
		pd, cq := e.pd(), e.cq(64)
		var qps []*verbs.QP
		for i := range 2 {
			qp := e.qp(pd, verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()})
			e.flushable(qp, 3)
			qps = append(qps, qp)
			e.check(i == 0 || qps[0].QPN() != qp.QPN(), "both queue pairs have the same number")
		}
		for _, qp := range qps {
			e.ok(qp.Modify(&verbs.QPAttr{State: qpstate.Error}, qpstate.MaskState), "Modify")
		}
		of := make(map[uint32]int)
		for _, wc := range e.collect(cq, 6, "flushed receives") {
			of[wc.QPN]++
		}
		e.check(of[qps[0].QPN()] == 3 && of[qps[1].QPN()] == 3, "completions by QPN: %v", of)
	}},
}

func badCQ(name string, init func(*Env) verbs.CQInit) Case {
	return Case{"cq", name + " is refused", func(e *Env) {
		cq, err := e.Dev.CreateCQ(init(e))
		e.fails(err, "CreateCQ", syscall.EINVAL)
		if err == nil {
			e.Cleanup(cq.Close)
		}
	}}
}

// flusher returns an end in INIT with n receives, whose IDs start at 0. Moving it to ERR makes
// n completions.
func (e *Env) flusher(n int) (*end, int) {
	x := e.end(wiring{})
	e.ok(x.machine.ToInit(x.attr), "ToInit")
	x.receives(n, 0, 16)
	return x, n
}

// flushable moves a queue pair to INIT and posts n receives without memory.
func (e *Env) flushable(qp *verbs.QP, n int) {
	attr := e.attr()
	e.ok(qpstate.NewMachine(qp.Type(), qp, nil).ToInit(attr), "ToInit")
	for i := range n {
		e.ok(qp.PostRecv([]verbs.RecvWR{{ID: uint64(i)}}), "PostRecv")
	}
}
