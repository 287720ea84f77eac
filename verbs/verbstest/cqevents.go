// Completion events: channels of many CQs, arming, solicited events, overrun.
//
// verbs.CQ.Wait polls before it arms. To see what arming does, most cases here use the
// provider's objects directly.

package verbstest

import (
	"context"
	"runtime"
	"time"
	"unsafe"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var cqEventCases = []Case{
	{"events of a cq", "16 CQs on one channel", func(e *Env) {
		ch, pd := e.channel(), e.pd()
		var cqs []*verbs.CQ
		var qps []*verbs.QP
		for range 16 {
			cq, err := e.Dev.CreateCQ(verbs.CQInit{Depth: 8, Channel: ch})
			cqs = append(cqs, made(e, cq, err))
			qp := e.qp(pd, verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()})
			e.flushable(qp, 1)
			qps = append(qps, qp)
		}
		woken := make(chan uint32, len(cqs))
		for _, cq := range cqs {
			go func() {
				var wcs [1]verbs.WC
				if _, err := cq.Wait(e.Ctx, wcs[:]); err != nil {
					e.Errorf("Wait: %v", err)
				}
				woken <- wcs[0].QPN
			}()
		}
		time.Sleep(20 * time.Millisecond)
		for i := len(qps) - 1; i >= 0; i-- {
			e.ok(qps[i].Modify(&verbs.QPAttr{State: qpstate.Error}, qpstate.MaskState), "Modify")
			if got := <-woken; got != qps[i].QPN() {
				e.Errorf("QP %#x was flushed, but the waiter of %#x was woken", qps[i].QPN(), got)
			}
		}
	}},
	{"events of a cq", "armed for any: any completion makes an event", func(e *Env) {
		x := e.bare()
		x.arm(false)
		x.send(0)
		x.wantEvents(1)
	}},
	{"events of a cq", "one event per arming", func(e *Env) {
		x := e.bare()
		x.arm(false)
		x.send(0)
		x.wantEvents(1)
		x.send(0)
		x.wantEvents(0)
		x.arm(false)
		x.send(0)
		x.wantEvents(1)
	}},
	{"events of a cq", "not armed: no event", func(e *Env) {
		x := e.bare()
		x.send(verbs.SendSolicited)
		x.wantEvents(0)
	}},
	{"events of a cq", "armed for solicited: a plain send makes no event", func(e *Env) {
		x := e.bare()
		x.arm(true)
		x.send(0)
		x.wantEvents(0)
	}},
	{"events of a cq", "armed for solicited: a solicited send makes an event", func(e *Env) {
		x := e.bare()
		x.arm(true)
		x.send(0)
		x.send(verbs.SendSolicited)
		x.wantEvents(1)
	}},
	{"events of a cq", "armed for solicited: an error makes an event", func(e *Env) {
		x := e.bare()
		x.arm(true)
		e.ok(x.to.Modify(&verbs.QPAttr{State: qpstate.Error}, qpstate.MaskState), "Modify")
		x.wantEvents(1)
	}},
	{"events of a cq", "armed for any, then for solicited: any completion makes an event", func(e *Env) {
		x := e.bare()
		x.arm(false)
		x.arm(true)
		x.send(0)
		x.wantEvents(1)
	}},
	{"events of a cq", "overrun is IBV_EVENT_CQ_ERR", func(e *Env) {
		events := e.subscribe()
		cq := e.cq(1)
		other := e.cq(1)
		cap := defaultCap()
		cap.MaxRecvWR = uint32(cq.Depth() + 4)
		qp := e.qp(e.pd(), verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: cap})
		e.flushable(qp, cq.Depth()+4)
		e.ok(qp.Modify(&verbs.QPAttr{State: qpstate.Error}, qpstate.MaskState), "Modify")
		event := events.want(verbs.EventCQErr)
		e.check(cq.Is(event) && !other.Is(event), "%v does not name the CQ", event)
	}},
	{"events of a cq", "overrun: Wait, Poll and PostSend name the CQ, without a subscription", func(e *Env) {
		a, b := e.pair(wiring{cqDepth: 1, cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}})
		b.receives(b.recv.Depth()+2, 0, 8)
		ended := make(chan error, 1)
		go func() { // the messages are not solicited: only the overrun wakes it
			ctx, cancel := e.patient()
			defer cancel()
			var err error
			for wcs := make([]verbs.WC, 1); err == nil; {
				_, err = b.recv.WaitFor(ctx, wcs, verbs.WaitOptions{Solicited: true})
			}
			e.check(ctx.Err() == nil, "the overrun did not wake the goroutine")
			ended <- err
		}()
		time.Sleep(quietTime)
		for range b.recv.Depth() + 2 {
			a.post(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 1)})
		}
		overran := func(what string, err error) {
			var overrun *verbs.OverrunError
			named := errors.As(err, &overrun) && overrun.CQ == b.recv && overrun.Depth == b.recv.Depth()
			e.check(named, "%s does not name the CQ: %v", what, err)
		}
		overran("Wait", <-ended)
		_, err := b.recv.Poll(make([]verbs.WC, 1))
		overran("Poll", err)
		overran("PostSend", b.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGL: b.sge(0, 1)}}))
	}},
}

// bare is a connected RC pair of provider objects in one domain. The receives of the queue pair
// to complete on a CQ whose events are counted.
type bare struct {
	e        *Env
	cq       verbs.ProviderCQ
	from, to verbs.ProviderQP
	sge      verbs.SGE
	events   chan struct{}
}

func (e *Env) bare() *bare {
	p := verbs.ProviderOf(e.Dev)
	x := &bare{e: e, events: make(chan struct{}, 100)}
	pd, err := p.AllocPD()
	made(e, pd, err)
	ch, err := p.CreateCompChannel()
	made(e, ch, err)
	x.cq, err = p.CreateCQ(verbs.ProviderCQInit{Depth: 64, Channel: ch, Wake: func() { x.events <- struct{}{} }})
	made(e, x.cq, err)
	x.listen(p, ch)
	sends, err := p.CreateCQ(verbs.ProviderCQInit{Depth: 64})
	made(e, sends, err)

	buf, pinner := make([]byte, 4096), new(runtime.Pinner)
	pinner.Pin(&buf[0])
	addr := uint64(uintptr(unsafe.Pointer(&buf[0])))
	mr, err := pd.RegMR(buf, addr, verbs.AccessLocalWrite)
	made(e, mr, err)
	e.Cleanup(func() error { pinner.Unpin(); return nil })
	x.sge = verbs.SGE{Addr: addr, Length: 64, LKey: mr.LKey()}

	a, err := pd.CreateQP(verbs.ProviderQPInit{Type: verbs.RC, SendCQ: sends, RecvCQ: sends, Cap: defaultCap()})
	x.from = made(e, a, err)
	b, err := pd.CreateQP(verbs.ProviderQPInit{Type: verbs.RC, SendCQ: sends, RecvCQ: x.cq, Cap: defaultCap()})
	x.to = made(e, b, err)
	for _, way := range [][2]verbs.ProviderQP{{a, b}, {b, a}} {
		attr := e.attr()
		attr.DestQPN = way[1].QPN()
		m := qpstate.NewMachine(verbs.RC, way[0], nil)
		e.ok(m.ToInit(attr), "ToInit")
		e.ok(m.ToRTR(attr), "ToRTR")
		e.ok(m.ToRTS(attr), "ToRTS")
	}
	into := x.sge
	into.Addr += 2048
	for range 8 {
		_, err := x.to.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{into}}})
		e.ok(err, "PostRecv")
	}
	return x
}

// listen starts a goroutine that waits on another CQ of the channel. A device may read the
// channel only while a goroutine waits.
func (x *bare) listen(p verbs.ProviderDevice, ch verbs.ProviderCompChannel) {
	other, err := p.CreateCQ(verbs.ProviderCQInit{Depth: 1, Channel: ch, Wake: func() {}})
	made(x.e, other, err)
	s, ok := other.(verbs.ProviderCQSleeper)
	if !ok || s.SleepMakesProgress() {
		return
	}
	ctx, end := context.WithCancel(x.e.Ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			s.Sleep(ctx, ctx, nil, nil)
		}
	}()
	x.e.Cleanup(func() error {
		end()
		<-done
		return nil
	})
}

func (x *bare) arm(solicitedOnly bool) { x.e.ok(x.cq.Arm(solicitedOnly), "Arm") }

// send posts a SEND and polls until the message is received.
func (x *bare) send(flags verbs.SendFlags) {
	x.post(flags)
	x.polled(1)
}

func (x *bare) post(flags verbs.SendFlags) {
	_, err := x.from.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: flags, SGL: []verbs.SGE{x.sge}}})
	x.e.ok(err, "PostSend")
}

// polled polls until n messages are received.
func (x *bare) polled(n int) {
	var wcs [1]verbs.WC
	for n > 0 {
		k, err := x.cq.Poll(wcs[:])
		x.e.ok(err, "Poll")
		if n -= k; k == 1 {
			x.e.success(wcs[0], "the receive")
			continue
		}
		x.e.ok(x.e.Ctx.Err(), "polling for the receive")
		time.Sleep(100 * time.Microsecond)
	}
}

// wantEvents reports a fault unless exactly n events arrived since its last call.
func (x *bare) wantEvents(n int) {
	got := 0
	if n > 0 {
		ctx, cancel := x.e.patient()
		select {
		case <-x.events:
			got++
		case <-ctx.Done():
		}
		cancel()
	}
	time.Sleep(quietTime)
	for len(x.events) > 0 {
		<-x.events
		got++
	}
	x.e.check(got == n, "%d events, want %d", got, n)
}
