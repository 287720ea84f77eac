// Asynchronous events.

package verbstest

import (
	"slices"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// watcher collects the events of a case's device.
type watcher struct {
	e    *Env
	ch   chan verbs.AsyncEvent
	seen []verbs.AsyncEvent
}

// subscribe starts a watcher.
func (e *Env) subscribe() *watcher {
	w := &watcher{e: e, ch: make(chan verbs.AsyncEvent, 1000)}
	cancel := e.Dev.Subscribe(func(event verbs.AsyncEvent) { w.ch <- event })
	e.Cleanup(func() error { cancel(); return nil })
	return w
}

// want waits for an event of a type and returns it. It keeps other events.
func (w *watcher) want(t verbs.EventType) verbs.AsyncEvent {
	ctx, cancel := w.e.patient()
	defer cancel()
	for {
		for i, event := range w.seen {
			if event.Type == t {
				w.seen = slices.Delete(w.seen, i, i+1)
				return event
			}
		}
		select {
		case event := <-w.ch:
			w.seen = append(w.seen, event)
		case <-ctx.Done():
			w.e.Fatalf("no %v arrived; the events were %v", t, w.seen)
		}
	}
}

// about waits for an event of a queue pair.
func (w *watcher) about(t verbs.EventType, x *end) {
	if event := w.want(t); event.QPN != x.qp.QPN() {
		w.e.Errorf("%v does not name QP %#x", event, x.qp.QPN())
	}
}

// fatal returns the fatal events. It waits a moment for more.
func (w *watcher) fatal() []verbs.AsyncEvent {
	time.Sleep(quietTime)
	for len(w.ch) > 0 {
		w.seen = append(w.seen, <-w.ch)
	}
	return slices.DeleteFunc(slices.Clone(w.seen), func(e verbs.AsyncEvent) bool { return !e.Fatal() })
}

var eventCases = []Case{
	{"event", "no fatal event in normal use", func(e *Env) {
		events := e.subscribe()
		a, b := e.rc()
		works(a, b)
		e.ok(a.machine.ToError(), "ToError")
		e.ok(b.machine.ToReset(), "ToReset")
		e.check(len(events.fatal()) == 0, "events: %v", events.seen)
	}},
	{"event", "COMM_EST: a message arrives in RTR", func(e *Env) {
		events := e.subscribe()
		a, b := e.pair(wiring{leave: qpstate.RTR})
		b.receives(1, 0, 64)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 5)})
		a.done()
		b.got()
		events.about(verbs.EventCommEst, b)
	}},
	{"event", "QP_ACCESS_ERR: the peer used a wrong rkey", func(e *Env) {
		events := e.subscribe()
		a, b := e.rc()
		wr := a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 8)}, b, 0)
		wr.RKey ^= 0x5555
		a.signaled(wr)
		a.sent(1)
		events.about(verbs.EventQPAccessErr, b)
	}},
	{"event", "QP_REQ_ERR: the peer sent a request that is refused", func(e *Env) {
		events := e.subscribe()
		a, b := e.pair(wiring{tune: func(_, b *verbs.QPAttr) { b.Access = 0 }})
		a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: a.sge(0, 8)}, b, 0))
		a.sent(1)
		events.about(verbs.EventQPReqErr, b)
	}},
	{"event", "QP_FATAL: the CQ of a working queue pair overran", func(e *Env) {
		events := e.subscribe()
		a, b := e.pair(wiring{cqDepth: 1, cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}})
		b.receives(b.recv.Depth()+2, 0, 8)
		for range b.recv.Depth() + 2 {
			a.post(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 1)})
		}
		e.check(b.recv.Is(events.want(verbs.EventCQErr)), "the event does not name the CQ")
		events.about(verbs.EventQPFatal, b)
		b.inState(qpstate.Error)
	}},
	{"event", "a cancelled subscription gets no event", func(e *Env) {
		heard := make(chan verbs.AsyncEvent, 100)
		cancel := e.Dev.Subscribe(func(event verbs.AsyncEvent) { heard <- event })
		cancel()
		a, b := e.rc()
		works(a, b)
		e.check(len(heard) == 0, "%d events", len(heard))
	}},
}
