// A hundred waiting goroutines and Close, which must wake all of them. Packets keep arriving,
// so that Close interrupts a busy device.

package verbstest

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

const sleepers = 100

var wakeCases = []Case{
	{"threads", "100 wait on one CQ and are woken by Close", func(e *Env) {
		traffic := e.traffic(nil)
		for range 3 { // the first round may find the device idle
			cq := e.cq(4)
			woken := e.sleepOn(cq)
			traffic.trips(5)
			e.ok(cq.Close(), "Close")
			woken()
			traffic.trips(5)
		}
		traffic.stop()
	}},
	{"threads", "100 wait on one busy CQ and are woken by Close", func(e *Env) {
		a, b := e.rc()
		woken := e.sleepOn(a.send)
		wr := a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: a.sge(0, 8)}, b, 0)
		var posting sync.WaitGroup
		posting.Go(func() {
			for {
				err := a.qp.PostSend([]verbs.SendWR{wr})
				if errors.Is(err, net.ErrClosed) {
					return
				}
				e.check(err == nil || errors.Is(err, syscall.ENOMEM), "%v", err)
				time.Sleep(100 * time.Microsecond)
			}
		})
		time.Sleep(10 * time.Millisecond)
		e.ok(a.qp.Close(), "Close of the queue pair")
		e.ok(a.send.Close(), "Close of the CQ")
		posting.Wait()
		woken()
	}},
	{"threads", "100 wait on 10 CQs of one channel and are woken by Close", func(e *Env) {
		ch := e.channel()
		traffic := e.traffic(ch)
		var cqs []*verbs.CQ
		for range 10 {
			cqs = append(cqs, e.cqOn(ch, 4))
		}
		woken := e.sleepOn(cqs...)
		traffic.trips(5)
		for _, cq := range cqs {
			e.ok(cq.Close(), "Close")
			traffic.trips(1)
		}
		woken()
		traffic.stop()
	}},
}

// sleepOn starts goroutines that wait on the CQs again and again. The returned function waits
// until Close has woken all of them.
func (e *Env) sleepOn(cqs ...*verbs.CQ) (woken func()) {
	var all sync.WaitGroup
	for i := range sleepers {
		cq := cqs[i%len(cqs)]
		all.Go(func() {
			var wcs [1]verbs.WC
			_, err := cq.Wait(e.Ctx, wcs[:])
			for ; err == nil; _, err = cq.Wait(e.Ctx, wcs[:]) {
				e.status("a sleeper's completion", wcs[0], verbs.WCSuccess, verbs.WCWRFlushErr)
			}
			e.fails(err, "Wait", net.ErrClosed)
		})
	}
	time.Sleep(10 * time.Millisecond) // until they sleep
	return all.Wait
}

// traffic is a message that two goroutines send to and fro until stop is called. Both wait for
// it.
type traffic struct {
	e    *Env
	trip chan struct{}
	end  context.CancelFunc
	all  sync.WaitGroup
}

// traffic starts traffic. Its CQs are on the channel, or each has its own if ch is nil.
func (e *Env) traffic(ch *verbs.CompChannel) *traffic {
	a, b := e.pair(wiring{channel: ch})
	ctx, cancel := context.WithCancel(e.Ctx)
	t := &traffic{e: e, trip: make(chan struct{}), end: cancel}
	for _, x := range []*end{a, b} {
		x.receives(1, 0, 8)
		t.all.Go(func() {
			defer cancel() // so that the other end does not wait for this one
			var wcs [1]verbs.WC
			for {
				if _, err := x.recv.Wait(ctx, wcs[:]); err != nil {
					e.check(errors.Is(err, context.Canceled), "the traffic: %v", err)
					return
				}
				e.success(wcs[0], "the traffic's receive")
				x.receives(1, 0, 8)
				if x == a {
					select {
					case t.trip <- struct{}{}:
					default: // no goroutine counts the trips
					}
				}
				x.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: x.sge(8, 8)})
				x.done()
			}
		})
	}
	a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(8, 8)})
	a.done()
	return t
}

// trips returns when the message has come back n times.
func (t *traffic) trips(n int) {
	for range n {
		select {
		case <-t.trip:
		case <-t.e.Ctx.Done():
			t.e.Fatalf("the traffic has stopped")
		}
	}
}

func (t *traffic) stop() {
	t.end()
	t.all.Wait()
}
