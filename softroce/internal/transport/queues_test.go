package transport

import (
	"testing"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestSRQ shares receives between two queue pairs.
func TestSRQ(t *testing.T) {
	o := defaults()
	o.srq = true
	net, a, b := pair(t, 1, o)
	if _, err := b.qp.PostRecv([]verbs.RecvWR{{}}); err == nil {
		t.Error("a queue pair with an SRQ took a receive of its own")
	}
	if err := b.srq.Modify(verbs.SRQAttr{Limit: 2}, verbs.SRQLimit); err != nil {
		t.Error(err)
	}
	b.recv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2}, verbs.RecvWR{ID: 3})
	a.send(verbs.SendWR{Opcode: verbs.OpSend}, verbs.SendWR{Opcode: verbs.OpSend})
	b.want(b.rcq, 1, verbs.WCSuccess, verbs.WCRecv)
	b.want(b.rcq, 2, verbs.WCSuccess, verbs.WCRecv)
	b.wantEvent(verbs.EventSRQLimitReached)
	if b.srq.Query().Limit != 0 || len(b.node.events) != 0 {
		t.Error("the limit is still armed")
	}
	b.modify(qpstate.Attr{State: qpstate.Error}, 0)
	b.wantEvent(verbs.EventQPLastWQEReached)
	net.settle()
	if b.rcq.Poll(make([]verbs.WC, 1)) != 0 {
		t.Error("the SRQ's receive was flushed")
	}
	if err := b.srq.Modify(verbs.SRQAttr{Limit: 65}, verbs.SRQLimit); err == nil {
		t.Error("a limit beyond the queue was taken")
	}
}

// TestCQ arms, overruns and wraps.
func TestCQ(t *testing.T) {
	s := newSimnet(t, 1).node("10.0.0.1")
	calls := 0
	cq, err := s.engine.CreateCQ(CQInit{Depth: 3, Notify: func() { calls++ }})
	if err != nil {
		t.Fatal(err)
	}
	push := func(id uint64, solicited bool, status verbs.WCStatus) bool {
		return cq.push(&verbs.WC{ID: id, Status: status}, solicited)
	}
	wcs := make([]verbs.WC, 10)
	push(1, true, 0)
	cq.Arm(true)
	push(2, false, 0)
	if calls != 0 {
		t.Error("woken by what was there, or not solicited")
	}
	push(3, true, 0)
	if calls != 1 {
		t.Error("not woken by a solicited completion")
	}
	if n := cq.Poll(wcs[:2]); n != 2 || wcs[0].ID != 1 || wcs[1].ID != 2 {
		t.Error("polled", wcs[:n])
	}
	cq.Arm(true)
	push(4, false, verbs.WCWRFlushErr)
	if calls != 2 {
		t.Error("not woken by an error")
	}
	cq.Arm(false)
	cq.Arm(true)
	push(5, false, 0)
	if calls != 3 {
		t.Error("a solicited arming took back the other")
	}
	if push(6, false, 0) || push(7, false, 0) || len(s.events) != 1 || s.events[0].Type != verbs.EventCQErr || s.events[0].CQ != cq {
		t.Error("overrun:", s.events)
	}
	if n := cq.Poll(wcs); n != 3 || wcs[0].ID != 3 || wcs[2].ID != 5 {
		t.Error("polled", wcs[:n])
	}
}

func TestCQOverrunEndsQP(t *testing.T) {
	o := defaults()
	o.cqDepth = 2
	net, a, b := pair(t, 1, o)
	for range 3 {
		b.recv(verbs.RecvWR{})
		a.send(verbs.SendWR{Opcode: verbs.OpSend})
	}
	net.settle()
	b.wantState(qpstate.Error)
	b.wantEvent(verbs.EventCQErr)
	b.wantEvent(verbs.EventQPFatal)
}

// TestSolicited says that only a message's last packet wakes a waiter, and only if
// its sender asked for it.
func TestSolicited(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	woken := 0
	b.rcq.init.Notify = func() { woken++ }
	b.rcq.Arm(true)
	b.recv(verbs.RecvWR{SGL: []verbs.SGE{b.sge(0, 5000)}}, verbs.RecvWR{SGL: []verbs.SGE{b.sge(0, 5000)}})
	a.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 5000)}})
	net.settle()
	if woken != 0 {
		t.Error("woken without being asked")
	}
	a.send(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSolicited, SGL: []verbs.SGE{a.sge(0, 5000)}})
	net.settle()
	if woken != 1 {
		t.Error("woken", woken, "times")
	}
}
