package transport

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestRefused sends a request that the responder refuses, for each reason. The requests before
// it must succeed. The request itself must fail although it is unsignaled. The requests after
// it must be flushed, and both ends must be in ERR.
func TestRefused(t *testing.T) {
	write := func(a, b *end) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	}
	read := func(a, b *end) verbs.SendWR {
		wr := write(a, b)
		wr.Opcode = verbs.OpRDMARead
		return wr
	}
	atomic := func(a, b *end) verbs.SendWR {
		wr := write(a, b)
		wr.Opcode, wr.SGL = verbs.OpAtomicFetchAndAdd, []verbs.SGE{a.sge(0, 8)}
		return wr
	}
	send := func(a, b *end) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 3000)}}
	}
	for _, c := range []struct {
		name    string
		options func(*options)
		wr      func(a, b *end) verbs.SendWR
		status  verbs.WCStatus
		recv    verbs.WCStatus // of the responder's receive
		event   verbs.EventType
	}{
		{"unknown rkey", nil, func(a, b *end) verbs.SendWR { w := write(a, b); w.RKey ^= 1; return w }, verbs.WCRemAccessErr, verbs.WCWRFlushErr, verbs.EventQPAccessErr},
		{"READ with unknown rkey", nil, func(a, b *end) verbs.SendWR { w := read(a, b); w.RKey ^= 1; return w }, verbs.WCRemAccessErr, verbs.WCWRFlushErr, verbs.EventQPAccessErr},
		{"beyond the end", nil, func(a, b *end) verbs.SendWR { w := write(a, b); w.RemoteAddr += uint64(len(b.mem)) - 2999; return w }, verbs.WCRemAccessErr, verbs.WCWRFlushErr, verbs.EventQPAccessErr},
		{"below the beginning", nil, func(a, b *end) verbs.SendWR { w := write(a, b); w.RemoteAddr--; return w }, verbs.WCRemAccessErr, verbs.WCWRFlushErr, verbs.EventQPAccessErr},
		{"beyond the end of the address space", nil, func(a, b *end) verbs.SendWR { w := write(a, b); w.RemoteAddr = ^uint64(0) - 10; return w }, verbs.WCRemAccessErr, verbs.WCWRFlushErr, verbs.EventQPAccessErr},
		{"another domain's region", nil, func(a, b *end) verbs.SendWR {
			w := write(a, b)
			other, err := b.node.domain().RegisterMR(b.mem, allAccess)
			if err != nil {
				panic(err)
			}
			w.RKey = other.RKey()
			return w
		}, verbs.WCRemAccessErr, verbs.WCWRFlushErr, verbs.EventQPAccessErr},
		{"closed region", nil, func(a, b *end) verbs.SendWR { w := write(a, b); b.mr.Close(); return w }, verbs.WCRemAccessErr, verbs.WCWRFlushErr, verbs.EventQPAccessErr},
		{"region without REMOTE_WRITE", func(o *options) { o.mrAccess = verbs.AccessLocalWrite | verbs.AccessRemoteRead }, write, verbs.WCRemAccessErr, verbs.WCWRFlushErr, verbs.EventQPAccessErr},
		{"region without REMOTE_READ", func(o *options) { o.mrAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite }, read, verbs.WCRemAccessErr, verbs.WCWRFlushErr, verbs.EventQPAccessErr},
		{"region without atomics", func(o *options) { o.mrAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite }, atomic, verbs.WCRemAccessErr, verbs.WCWRFlushErr, verbs.EventQPAccessErr},
		{"QP without REMOTE_WRITE", func(o *options) { o.access = verbs.AccessRemoteRead }, write, verbs.WCRemInvReqErr, verbs.WCWRFlushErr, verbs.EventQPReqErr},
		{"QP without REMOTE_READ", func(o *options) { o.access = verbs.AccessRemoteWrite }, read, verbs.WCRemInvReqErr, verbs.WCWRFlushErr, verbs.EventQPReqErr},
		{"QP without atomics", func(o *options) { o.access = verbs.AccessRemoteRead }, atomic, verbs.WCRemInvReqErr, verbs.WCWRFlushErr, verbs.EventQPReqErr},
		{"receive too small", nil, func(a, b *end) verbs.SendWR { w := send(a, b); w.SGL[0].Length = 5001; return w }, verbs.WCRemInvReqErr, verbs.WCLocLenErr, verbs.EventQPReqErr},
		{"SEND with invalidate of a plain region", nil, func(a, b *end) verbs.SendWR {
			w := send(a, b)
			w.Opcode, w.InvalidateRKey = verbs.OpSendWithInvalidate, b.mr.RKey()
			return w
		}, verbs.WCRemInvReqErr, verbs.WCRemInvReqErr, verbs.EventQPReqErr},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := defaults()
			o.sigAll = false
			if c.options != nil {
				c.options(&o)
			}
			net, a, b := pair(t, 1, o)
			b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.sge(0, 5000)}}, verbs.RecvWR{ID: 2, SGL: []verbs.SGE{b.sge(5000, 5000)}}, verbs.RecvWR{ID: 3})
			before, bad := send(a, b), c.wr(a, b)
			before.ID, before.Flags, bad.ID = 1, verbs.SendSignaled, 2
			if c.name == "closed region" {
				before.SGL = nil // must not write to the responder's memory
			}
			after := send(a, b)
			after.ID = 3
			a.send(before, bad, after)
			a.want(a.scq, 1, verbs.WCSuccess, verbs.WCSend)
			a.want(a.scq, 2, c.status, 0)
			a.want(a.scq, 3, verbs.WCWRFlushErr, 0)
			b.want(b.rcq, 1, verbs.WCSuccess, verbs.WCRecv)
			b.want(b.rcq, 2, c.recv, 0)
			b.want(b.rcq, 3, verbs.WCWRFlushErr, 0)
			a.wantState(qpstate.Error)
			b.wantState(qpstate.Error)
			b.wantEvent(c.event)
			net.settle()
		})
	}
}

// TestLocalErrors uses bad memory of the requester.
func TestLocalErrors(t *testing.T) {
	t.Run("source", func(t *testing.T) {
		net, a, b := pair(t, 1, defaults())
		bad := a.sge(0, 10)
		bad.LKey ^= 1
		b.recv(verbs.RecvWR{ID: 1})
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend}, verbs.SendWR{ID: 2, Opcode: verbs.OpSend, SGL: []verbs.SGE{bad}}, verbs.SendWR{ID: 3, Opcode: verbs.OpSend})
		a.want(a.scq, 1, verbs.WCSuccess, verbs.WCSend)
		a.want(a.scq, 2, verbs.WCLocProtErr, 0)
		a.want(a.scq, 3, verbs.WCWRFlushErr, 0)
		a.wantState(qpstate.Error)
		net.settle()
		b.wantState(qpstate.RTS) // nothing was sent
	})
	t.Run("source closed while it is sent", func(t *testing.T) {
		net, a, _ := pair(t, 1, defaults())
		net.tap = func(from, _ *simnode, raw []byte) bool { a.mr.Close(); return from != a.node }
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 3000)}})
		a.want(a.scq, 1, verbs.WCLocProtErr, 0)
	})
	t.Run("destination of a READ", func(t *testing.T) {
		o := defaults()
		o.mrAccess = verbs.AccessRemoteRead
		_, a, b := pair(t, 1, o)
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.sge(0, 10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		a.want(a.scq, 1, verbs.WCLocProtErr, 0)
	})
	t.Run("destination of an atomic", func(t *testing.T) {
		for _, op := range []verbs.Opcode{verbs.OpAtomicCmpAndSwp, verbs.OpAtomicFetchAndAdd} {
			net, a, b := pair(t, 1, defaults())
			a.send(verbs.SendWR{ID: 1, Opcode: op, SGL: []verbs.SGE{a.sge(0, 4), a.sge(4, 5)}, Swap: 1, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.want(a.scq, 1, verbs.WCLocLenErr, 0)
			a.wantState(qpstate.Error)
			net.settle()
			b.wantState(qpstate.RTS) // nothing was sent
		}
	})
	t.Run("receive", func(t *testing.T) {
		_, a, b := pair(t, 1, defaults())
		bad := b.sge(0, 3000)
		bad.Addr--
		b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{bad}}, verbs.RecvWR{ID: 2})
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 3000)}})
		a.want(a.scq, 1, verbs.WCRemOpErr, 0)
		b.want(b.rcq, 1, verbs.WCLocProtErr, 0)
		b.want(b.rcq, 2, verbs.WCWRFlushErr, 0)
	})
	t.Run("MAX_RD_ATOMIC 0", func(t *testing.T) {
		o := defaults()
		o.rdAtomic = 0
		_, a, b := pair(t, 1, o)
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.sge(0, 10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		a.want(a.scq, 1, verbs.WCLocQPOpErr, 0)
	})
	t.Run("MAX_DEST_RD_ATOMIC 0", func(t *testing.T) {
		o := defaults()
		n := newSimnet(t, 1)
		a := n.node("10.0.0.1").end(o)
		o.rdAtomic = 0
		b := n.node("10.0.0.2").end(o)
		a.connect(b)
		b.connect(a)
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.sge(0, 10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		a.want(a.scq, 1, verbs.WCRemInvReqErr, 0)
	})
}

// TestStarvedPeer gives the peer's process no processor time for a while. It then answers all
// the repeated packets in its socket, late.
func TestStarvedPeer(t *testing.T) {
	for op, completes := range map[verbs.Opcode]verbs.WCOpcode{verbs.OpSend: verbs.WCSend, verbs.OpRDMARead: verbs.WCRDMARead} {
		o := defaults()
		o.retry, o.timeout = 7, 14 // 67 ms
		net, a, b := pair(t, 1, o)
		for id := range uint64(3) {
			b.node.asleep = net.now + 1500*time.Millisecond
			a.send(verbs.SendWR{ID: id, Opcode: op, SGL: []verbs.SGE{a.sge(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			if op == verbs.OpSend {
				b.recv(verbs.RecvWR{SGL: []verbs.SGE{b.sge(0, 8)}})
			}
			a.want(a.scq, id, verbs.WCSuccess, completes)
		}
	}
}

// TestRetryLimit counts how often a request is sent to a silent peer, and checks how long the
// requester waits.
func TestRetryLimit(t *testing.T) {
	for retry, timeouts := range map[uint8]time.Duration{0: 1, 1: 1 + 2, 3: 1 + 2 + 2*4, 7: 1 + 2 + 6*4} {
		o := defaults()
		o.retry, o.timeout = retry, 12 // 16.8 ms
		net, a, b := pair(t, 1, o)
		a.proven()
		sent := 0
		net.tap = func(from, to *simnode, raw []byte) bool { sent++; return false }
		b.recv(verbs.RecvWR{})
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend}, verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendFence})
		a.want(a.scq, 1, verbs.WCRetryExcErr, 0)
		a.want(a.scq, 2, verbs.WCWRFlushErr, 0)
		if want := 2 * (int(retry) + 1); sent != want {
			t.Errorf("RETRY_CNT %d: %d packets sent, want %d", retry, sent, want)
		}
		if want := timeouts * (4096 << 12); net.now != want {
			t.Errorf("RETRY_CNT %d: gave up after %v, want %v", retry, net.now, want)
		}
	}
	t.Run("no timeout", func(t *testing.T) {
		o := defaults()
		o.timeout = 0
		net, a, _ := pair(t, 1, o)
		net.tap = func(*simnode, *simnode, []byte) bool { return false }
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
		net.settle()
		a.wantState(qpstate.RTS)
	})
}

// TestShortTimeouts checks that TIMEOUT 1 to 8, which mean 8 µs to 1 ms, wait for 2 ms.
func TestShortTimeouts(t *testing.T) {
	for timeout := uint8(1); timeout <= 9; timeout++ {
		o := defaults()
		o.timeout = timeout
		net, a, _ := pair(t, 1, o)
		a.send(verbs.SendWR{Opcode: verbs.OpSend})
		net.transmit()
		want := 2 * time.Millisecond
		if timeout == 9 {
			want = 4096 * 512
		}
		if at, ok := a.node.engine.Deadline(); !ok || at != want {
			t.Errorf("TIMEOUT %d: the timeout is at %v, want %v", timeout, at, want)
		}
	}
}

// TestNAKLost drops the NAK of a refused request. The requester sends the request again and
// gets the NAK again.
func TestNAKLost(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	dropped := false
	net.tap = func(from, to *simnode, raw []byte) bool {
		p, _ := packet.Parse(raw)
		if !dropped && p.AETH() != nil && p.AETH().Syndrome() == packet.NAKRemoteAccess {
			dropped = true
			return false
		}
		return true
	}
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 1)}, RemoteAddr: b.mr.Addr()})
	a.want(a.scq, 1, verbs.WCRemAccessErr, 0)
	if !dropped {
		t.Error("no NAK was sent")
	}
}

// TestPostErrors posts bad requests, which must be refused at once.
func TestPostErrors(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	big := a.sge(0, 65)
	for name, wr := range map[string]verbs.SendWR{
		"too many SGEs":      {Opcode: verbs.OpSend, SGL: make([]verbs.SGE, 5)},
		"inline too long":    {Opcode: verbs.OpSend, Flags: verbs.SendInline, SGL: []verbs.SGE{big}},
		"inline READ":        {Opcode: verbs.OpRDMARead, Flags: verbs.SendInline},
		"unaligned atomic":   {Opcode: verbs.OpAtomicFetchAndAdd, SGL: []verbs.SGE{a.sge(0, 8)}, RemoteAddr: b.mr.Addr() + 4},
		"atomic of 7 bytes":  {Opcode: verbs.OpAtomicFetchAndAdd, SGL: []verbs.SGE{a.sge(0, 7)}, RemoteAddr: b.mr.Addr()},
		"bind memory window": {Opcode: verbs.OpBindMW},
		"unknown opcode":     {Opcode: 77},
		"no opcode":          {},
		"too long":           {Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{{Length: 1 << 31}}},
	} {
		if n, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}, wr}); n != 1 || err != syscall.EINVAL {
			t.Errorf("%s: %d, %v; want 1, EINVAL", name, n, err)
		}
	}
	if n, err := a.qp.PostRecv([]verbs.RecvWR{{}, {SGL: make([]verbs.SGE, 5)}}); n != 1 || err != syscall.EINVAL {
		t.Errorf("receive of too many SGEs: %d, %v", n, err)
	}
	if n, err := b.qp.PostRecv(make([]verbs.RecvWR, 65)); n != 64 || err != syscall.ENOMEM {
		t.Errorf("65 receives in a queue of 64: %d, %v", n, err)
	}
	if n, err := b.qp.PostSend(slices.Repeat([]verbs.SendWR{{Opcode: verbs.OpSend}}, 65)); n != 64 || err != syscall.ENOMEM {
		t.Errorf("65 sends in a queue of 64: %d, %v", n, err)
	}
}

// TestPostStates posts in each state.
func TestPostStates(t *testing.T) {
	n := newSimnet(t, 1)
	a, b := n.node("10.0.0.1").end(defaults()), n.node("10.0.0.2").end(defaults())
	post := func(wantSend, wantRecv error) {
		t.Helper()
		state := a.qp.Query().State
		if _, err := a.qp.PostSend([]verbs.SendWR{{ID: 1, Opcode: verbs.OpSend}}); err != wantSend {
			t.Errorf("post send in %v: %v", state, err)
		}
		if _, err := a.qp.PostRecv([]verbs.RecvWR{{ID: 2}}); err != wantRecv {
			t.Errorf("post receive in %v: %v", state, err)
		}
	}
	post(syscall.EINVAL, syscall.EINVAL)
	a.toInit()
	post(syscall.EINVAL, nil)
	a.toRTR(b)
	post(syscall.EINVAL, nil)
	a.toRTS()
	post(nil, nil)
	a.modify(qpstate.Attr{State: qpstate.Error}, 0)
	a.want(a.scq, 1, verbs.WCWRFlushErr, 0)
	for range 3 {
		a.want(a.rcq, 2, verbs.WCWRFlushErr, 0)
	}
	post(nil, nil)
	a.want(a.scq, 1, verbs.WCWRFlushErr, 0)
	a.want(a.rcq, 2, verbs.WCWRFlushErr, 0)
	a.modify(qpstate.Attr{State: qpstate.Reset}, 0)
	post(syscall.EINVAL, syscall.EINVAL)
}

// TestModifyErrors passes bad values to Modify, which must not apply any of them.
func TestModifyErrors(t *testing.T) {
	n := newSimnet(t, 1)
	a, b := n.node("10.0.0.1").end(defaults()), n.node("10.0.0.2").end(defaults())
	a.toInit()
	attr := qpstate.Attr{State: qpstate.RTR, PathMTU: qpstate.MTU1024, MaxDestRdAtomic: 1, DestQPN: b.qp.QPN(), RQPSN: 1<<24 + 5}
	attr.AH = qpstate.AHAttr{IsGlobal: true, PortNum: 1, GRH: qpstate.GRH{DGID: qpstate.GIDFrom(b.node.addr)}}
	row, _ := qpstate.Lookup(verbs.RC, qpstate.Init, qpstate.RTR)
	mask := row.Required | qpstate.MaskState
	var wrong *qpstate.TransitionError
	if err := a.qp.Modify(&attr, mask&^qpstate.MaskAV); !errors.As(err, &wrong) || wrong.Missing != qpstate.MaskAV {
		t.Errorf("without AV: %v", err)
	}
	for name, spoil := range map[string]func(*qpstate.Attr, *qpstate.Mask){
		"MTU 0":            func(a *qpstate.Attr, _ *qpstate.Mask) { a.PathMTU = 0 },
		"MTU 8192":         func(a *qpstate.Attr, _ *qpstate.Mask) { a.PathMTU = 6 },
		"no GRH":           func(a *qpstate.Attr, _ *qpstate.Mask) { a.AH.IsGlobal = false },
		"no DGID":          func(a *qpstate.Attr, _ *qpstate.Mask) { a.AH.GRH.DGID = qpstate.GID{} },
		"other port":       func(a *qpstate.Attr, _ *qpstate.Mask) { a.AH.PortNum = 2 },
		"too many atomics": func(a *qpstate.Attr, _ *qpstate.Mask) { a.MaxDestRdAtomic = 129 },
		"P_Key index":      func(a *qpstate.Attr, m *qpstate.Mask) { a.PKeyIndex, *m = 1, *m|qpstate.MaskPKeyIndex },
		"alternate path":   func(a *qpstate.Attr, m *qpstate.Mask) { *m |= qpstate.MaskAltPath },
		"access":           func(a *qpstate.Attr, m *qpstate.Mask) { a.Access, *m = 1<<18, *m|qpstate.MaskAccessFlags },
	} {
		bad, m := attr, mask
		spoil(&bad, &m)
		if err := a.qp.Modify(&bad, m); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
		if q := a.qp.Query(); q.State != qpstate.Init || q.DestQPN != 0 {
			t.Errorf("%s: an attribute was applied: %+v", name, q)
		}
	}
	if err := a.qp.Modify(&attr, mask); err != nil {
		t.Error(err)
	}
	if got := a.qp.Query().RQPSN; got != 5 {
		t.Errorf("RQ_PSN is %d, want its low 24 bits, 5", got)
	}
	bad := qpstate.Attr{State: qpstate.RTS, CurState: qpstate.RTS}
	if err := a.qp.Modify(&bad, qpstate.MaskState|qpstate.MaskCurState); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("wrong CUR_STATE: %v", err)
	}
}

func TestCreateErrors(t *testing.T) {
	s := newSimnet(t, 1).node("10.0.0.1")
	pd := s.domain()
	cq, _ := s.engine.CreateCQ(CQInit{Depth: 1})
	for i, c := range []struct {
		init QPInit
		want error
	}{
		{QPInit{Type: verbs.RC, SendCQ: cq}, syscall.EINVAL},
		{QPInit{Type: 9, SendCQ: cq, RecvCQ: cq}, syscall.EOPNOTSUPP},
		{QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: MaxQPWR + 1}}, syscall.EINVAL},
		{QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxRecvSGE: MaxSGE + 1}}, syscall.EINVAL},
	} {
		if _, err := pd.CreateQP(c.init); err != c.want {
			t.Errorf("queue pair %d: %v, want %v", i, err, c.want)
		}
	}
	for _, depth := range []int{0, -1, MaxCQE + 1} {
		if _, err := s.engine.CreateCQ(CQInit{Depth: depth}); err != syscall.EINVAL {
			t.Errorf("CQ of depth %d: %v", depth, err)
		}
	}
	if _, err := pd.RegisterMR(nil, 0); err != syscall.EINVAL {
		t.Error("empty region:", err)
	}
	if _, err := pd.RegisterMR(make([]byte, 1), verbs.AccessRemoteWrite); err != syscall.EINVAL {
		t.Error("remote without local write:", err)
	}
	if _, err := pd.RegisterMR(make([]byte, 1), 1<<30); err != syscall.EOPNOTSUPP {
		t.Error("an unknown right:", err)
	}
	if _, err := pd.CreateSRQ(0, 1); err != syscall.EINVAL {
		t.Error("SRQ of size 0:", err)
	}
}
