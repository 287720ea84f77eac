package transport

import (
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestSRQ shares receives between two queue pairs.
func TestSRQ(t *testing.T) {
	o := defaults()
	o.srq = true
	net, a, b := pair(t, 1, o)
	if _, err := b.qp.PostRecv([]verbs.RecvWR{{}}); err == nil {
		t.Error("a queue pair with an SRQ accepted a receive")
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
		t.Error("a limit above the queue's size was accepted")
	}
}

// TestSRQModify resizes an SRQ whose ring has wrapped around.
func TestSRQModify(t *testing.T) {
	o := defaults()
	o.srq = true
	o.cap.MaxRecvWR = 4
	_, a, b := pair(t, 1, o)
	b.recv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2}, verbs.RecvWR{ID: 3, SGL: []verbs.SGE{b.sge(0, 8)}})
	a.send(verbs.SendWR{Opcode: verbs.OpSend}, verbs.SendWR{Opcode: verbs.OpSend})
	b.want(b.rcq, 1, verbs.WCSuccess, verbs.WCRecv)
	b.want(b.rcq, 2, verbs.WCSuccess, verbs.WCRecv)
	b.recv(verbs.RecvWR{ID: 4}, verbs.RecvWR{ID: 5}, verbs.RecvWR{ID: 6, SGL: []verbs.SGE{b.sge(0, 8), b.sge(8, 8)}})
	for name, c := range map[string]struct {
		attr verbs.SRQAttr
		mask verbs.SRQAttrMask
	}{
		"below the queued receives":  {verbs.SRQAttr{MaxWR: 3}, verbs.SRQMaxWR},
		"0":                          {verbs.SRQAttr{}, verbs.SRQMaxWR},
		"too many":                   {verbs.SRQAttr{MaxWR: MaxQPWR + 1}, verbs.SRQMaxWR},
		"a limit above the new size": {verbs.SRQAttr{MaxWR: 8, Limit: 9}, verbs.SRQMaxWR | verbs.SRQLimit},
		"an unknown attribute":       {verbs.SRQAttr{MaxWR: 8}, verbs.SRQMaxWR | 1<<7},
	} {
		if err := b.srq.Modify(c.attr, c.mask); err != syscall.EINVAL {
			t.Errorf("%s: %v", name, err)
		}
		if got := b.srq.Query(); got != (verbs.SRQAttr{MaxWR: 4, MaxSGE: 4}) {
			t.Errorf("%s: the SRQ is now %+v", name, got)
		}
	}
	if err := b.srq.Modify(verbs.SRQAttr{MaxWR: 6, Limit: 6}, verbs.SRQMaxWR|verbs.SRQLimit); err != nil {
		t.Error(err)
	}
	if n, err := b.srq.PostRecv(make([]verbs.RecvWR, 3)); n != 2 || err != syscall.ENOMEM {
		t.Errorf("%d more were accepted: %v", n, err)
	}
	for i := range 4 {
		a.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, []int{8, 0, 0, 16}[i])}})
		b.want(b.rcq, uint64(3+i), verbs.WCSuccess, verbs.WCRecv)
	}
	b.wantEvent(verbs.EventSRQLimitReached)
	if other, err := b.pd.CreateSRQ(1, 1); err != nil || other.Number() == b.srq.Number() {
		t.Errorf("%v: two SRQs have the same number", err)
	}
}

// TestCQResize checks that a resize keeps completions, their order and their times, after the
// ring has wrapped around.
func TestCQResize(t *testing.T) {
	e := newSimnet(t, 1).node("10.0.0.1").engine
	clock := int64(0)
	cq, err := e.CreateCQ(CQInit{Depth: 4, Stamp: func() int64 { clock += 10; return clock }})
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(0)
	push := func(n int) {
		for range n {
			next++
			cq.push(&verbs.WC{ID: next}, false)
		}
	}
	push(3)
	cq.Poll(make([]verbs.WC, 2))
	push(3) // 3 to 6, which wraps around
	for _, depth := range []int{0, 3, MaxCQE + 1} {
		if err := cq.Resize(depth); err != syscall.EINVAL || cq.Depth() != 4 {
			t.Errorf("Resize(%d): %v, depth %d", depth, err, cq.Depth())
		}
	}
	for _, depth := range []int{9, 4, 5} {
		if err := cq.Resize(depth); err != nil || cq.Depth() != depth {
			t.Errorf("Resize(%d): %v, depth %d", depth, err, cq.Depth())
		}
	}
	push(1)
	wcs := make([]verbs.WCEx, 10)
	if n := cq.PollEx(wcs); n != 5 {
		t.Fatalf("%d completions", n)
	}
	for i, wc := range wcs[:5] {
		if wc.ID != uint64(3+i) || wc.Timestamp != 10*wc.ID {
			t.Errorf("completion %d is %d, of %d", i, wc.ID, wc.Timestamp)
		}
	}
}

// TestCQModeration counts the calls of Notify for a count and a period.
func TestCQModeration(t *testing.T) {
	e := newSimnet(t, 1).node("10.0.0.1").engine
	calls, delays := 0, []time.Duration(nil)
	cq, err := e.CreateCQ(CQInit{Depth: 100, Notify: func() { calls++ }, Delay: func(d time.Duration) { delays = append(delays, d) }})
	if err != nil {
		t.Fatal(err)
	}
	push := func(n int, solicited bool) {
		for range n {
			cq.push(&verbs.WC{}, solicited)
		}
	}
	want := func(what string, wantCalls, wantDelays int) {
		t.Helper()
		if calls != wantCalls || len(delays) != wantDelays {
			t.Errorf("%s: %d calls and %d delays, want %d and %d", what, calls, len(delays), wantCalls, wantDelays)
		}
	}
	cq.Moderate(3, time.Millisecond)
	push(5, false)
	want("not armed", 0, 0)
	cq.Arm(false)
	push(2, false)
	want("two of three", 0, 1)
	push(1, false)
	want("three of three", 1, 1)
	cq.Due()
	push(5, false)
	want("not armed again", 1, 1)
	cq.Arm(true)
	push(5, false)
	want("armed for solicited, none arrived", 1, 1)
	push(1, true)
	want("one solicited", 1, 2)
	cq.Due()
	want("the period is over", 2, 2)
	cq.Arm(false)
	push(1, false)
	cq.Moderate(0, 0)
	want("moderation ended", 3, 3)
	for _, c := range []struct {
		count  int
		period time.Duration
	}{{1, time.Second}, {5, 0}} {
		cq.Moderate(c.count, c.period)
		before := calls
		cq.Arm(false)
		push(1, false)
		if calls != before+1 {
			t.Errorf("Moderate(%d, %v): %d calls", c.count, c.period, calls-before)
		}
	}
	if delays[0] != time.Millisecond {
		t.Errorf("delays %v", delays)
	}
}

// TestSRQOfAnotherDomain checks that the receives of an SRQ use memory of the SRQ's domain.
func TestSRQOfAnotherDomain(t *testing.T) {
	n := newSimnet(t, 1)
	o := defaults()
	a := n.node("fd00::1").end(o)
	o.srq = true
	b := n.node("fd00::2").end(o)
	b.pd = b.node.domain()
	qp, err := b.pd.CreateQP(QPInit{Type: verbs.RC, SendCQ: b.scq, RecvCQ: b.rcq, SRQ: b.srq, Cap: o.cap})
	if err != nil {
		t.Fatal(err)
	}
	b.qp = qp
	a.connect(b)
	b.connect(a)
	fill(a.mem[:8], 3)
	b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.sge(0, 8)}})
	a.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 8)}})
	b.want(b.rcq, 1, verbs.WCSuccess, verbs.WCRecv)
	if string(b.mem[:8]) != string(a.mem[:8]) {
		t.Error("the peer received another message")
	}
	b.recv(verbs.RecvWR{ID: 2, SGL: []verbs.SGE{b.sge(0, 8)}}) // the queue pair itself cannot send from this memory
	b.send(verbs.SendWR{ID: 3, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{b.sge(0, 8)}})
	b.want(b.scq, 3, verbs.WCLocProtErr, 0)
}

// TestCQ arms, overruns and wraps a CQ.
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
		t.Error("woken by an old or an unsolicited completion")
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
		t.Error("arming for solicited completions replaced arming for all")
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

// TestSolicited checks that only the last packet of a message wakes a waiter, and only if the
// sender asked for it.
func TestSolicited(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	woken := 0
	b.rcq.init.Notify = func() { woken++ }
	b.rcq.Arm(true)
	b.recv(verbs.RecvWR{SGL: []verbs.SGE{b.sge(0, 5000)}}, verbs.RecvWR{SGL: []verbs.SGE{b.sge(0, 5000)}})
	a.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 5000)}})
	net.settle()
	if woken != 0 {
		t.Error("woken by an unsolicited message")
	}
	a.send(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSolicited, SGL: []verbs.SGE{a.sge(0, 5000)}})
	net.settle()
	if woken != 1 {
		t.Error("woken", woken, "times")
	}
}
