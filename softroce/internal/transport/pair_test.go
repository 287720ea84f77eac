// Two connected queue pairs, each with a region. Most tests begin with them.

package transport

import (
	"testing"
	"time"
	"unsafe"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// end is one end: a queue pair, its CQs and its memory.
type end struct {
	node *simnode
	pd   *PD
	scq  *CQ
	rcq  *CQ
	srq  *SRQ
	qp   *QP
	mem  []byte
	mr   *MR
	opts options
}

type options struct {
	kind        verbs.QPType
	cap         verbs.QPCap
	memory      int
	cqDepth     int
	mtu         qpstate.MTU
	psn         uint32
	access      verbs.Access
	mrAccess    verbs.Access
	rdAtomic    uint8
	timeout     uint8
	retry       uint8
	rnrRetry    uint8
	minRNRTimer uint8
	sigAll      bool
	srq         bool
	label       uint32 // flow label
}

const allAccess = verbs.AccessLocalWrite | remoteAccess | verbs.AccessFlushGlobal

func defaults() options {
	return options{kind: verbs.RC, cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64},
		memory: 1 << 16, cqDepth: 256, mtu: qpstate.MTU1024, psn: 0xfffff0, access: remoteAccess | verbs.AccessFlushGlobal | verbs.AccessFlushPersistent, mrAccess: allAccess, rdAtomic: 4,
		timeout: 10, retry: 7, rnrRetry: 7, minRNRTimer: 1, sigAll: true}
}

func (s *simnode) domain() *PD {
	pd, err := s.engine.AllocPD()
	if err != nil {
		s.net.tb.Fatal(err)
	}
	return pd
}

func (s *simnode) end(o options) *end {
	e := &end{node: s, pd: s.domain(), opts: o, mem: alignedBytes(o.memory)}
	var err error
	must := func() {
		s.net.tb.Helper()
		if err != nil {
			s.net.tb.Fatal(err)
		}
	}
	e.scq, err = s.engine.CreateCQ(CQInit{Depth: o.cqDepth})
	must()
	e.rcq, err = s.engine.CreateCQ(CQInit{Depth: o.cqDepth})
	must()
	if o.srq {
		e.srq, err = e.pd.CreateSRQ(o.cap.MaxRecvWR, o.cap.MaxRecvSGE)
		must()
	}
	e.qp, err = e.pd.CreateQP(QPInit{Type: o.kind, SendCQ: e.scq, RecvCQ: e.rcq, SRQ: e.srq, Cap: o.cap, SigAll: o.sigAll})
	must()
	e.mr, err = e.pd.RegisterMR(e.mem, o.mrAccess)
	must()
	return e
}

// alignedBytes returns memory that begins at a multiple of 8.
func alignedBytes(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// connect moves an end to RTS, connected to peer.
func (e *end) connect(peer *end) {
	e.toRTR(peer)
	e.toRTS()
}

func (e *end) modify(a qpstate.Attr, mask qpstate.Mask) {
	e.node.net.tb.Helper()
	if err := e.qp.Modify(&a, mask|qpstate.MaskState); err != nil {
		e.node.net.tb.Fatalf("→%v: %v", a.State, err)
	}
}

func (e *end) toInit() {
	e.node.net.tb.Helper()
	a := qpstate.Attr{State: qpstate.Init, PortNum: 1, Access: e.opts.access, QKey: 0x1234}
	row, _ := qpstate.Lookup(e.opts.kind, qpstate.Reset, qpstate.Init)
	e.modify(a, row.Required)
}

func (e *end) toRTR(peer *end) {
	e.node.net.tb.Helper()
	if e.qp.Query().State == qpstate.Reset {
		e.toInit()
	}
	a := qpstate.Attr{State: qpstate.RTR, PathMTU: e.opts.mtu, RQPSN: peer.opts.psn, DestQPN: peer.qp.QPN(),
		MaxDestRdAtomic: e.opts.rdAtomic, MinRNRTimer: e.opts.minRNRTimer}
	a.AH = qpstate.AHAttr{IsGlobal: true, PortNum: 1}
	a.AH.GRH.DGID, a.AH.GRH.FlowLabel = qpstate.GIDFrom(peer.node.addr), e.opts.label
	row, _ := qpstate.Lookup(e.opts.kind, qpstate.Init, qpstate.RTR)
	e.modify(a, row.Required)
}

func (e *end) toRTS() {
	e.node.net.tb.Helper()
	a := qpstate.Attr{State: qpstate.RTS, SQPSN: e.opts.psn, Timeout: e.opts.timeout, RetryCnt: e.opts.retry,
		RNRRetry: e.opts.rnrRetry, MaxRdAtomic: e.opts.rdAtomic}
	row, _ := qpstate.Lookup(e.opts.kind, qpstate.RTR, qpstate.RTS)
	e.modify(a, row.Required)
}

// pair returns two connected ends on their own network.
func pair(tb testing.TB, seed uint64, o options) (*simnet, *end, *end) {
	tb.Helper()
	n := newSimnet(tb, seed)
	a, b := n.node("fd00::1").end(o), n.node("fd00::2").end(o)
	a.connect(b)
	b.connect(a)
	return n, a, b
}

// proven opens the windows of the queue pair and its route as the peer's first acknowledgement does.
func (e *end) proven() {
	e.qp.mu.Lock()
	defer e.qp.unlock()
	e.qp.peerAnswered(e.node.net.now)
}

// sge returns n bytes of the end's memory from off on.
func (e *end) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: e.mr.Addr() + uint64(off), Length: uint32(n), LKey: e.mr.LKey()}
}

func (e *end) send(wrs ...verbs.SendWR) {
	e.node.net.tb.Helper()
	if n, err := e.qp.PostSend(wrs); err != nil {
		e.node.net.tb.Fatalf("post send [%d]: %v", n, err)
	}
}

func (e *end) recv(wrs ...verbs.RecvWR) {
	e.node.net.tb.Helper()
	n, err := 0, error(nil)
	if e.srq != nil {
		n, err = e.srq.PostRecv(wrs)
	} else {
		n, err = e.qp.PostRecv(wrs)
	}
	if err != nil {
		e.node.net.tb.Fatalf("post recv [%d]: %v", n, err)
	}
}

// want waits for the next completion of a CQ and checks it.
func (e *end) want(cq *CQ, id uint64, status verbs.WCStatus, op verbs.WCOpcode) verbs.WC {
	tb := e.node.net.tb
	tb.Helper()
	var wcs [1]verbs.WC
	e.node.net.run(time.Hour, func() bool { return cq.Poll(wcs[:]) == 1 })
	wc := wcs[0]
	if wc.ID != id || wc.Status != status || status == verbs.WCSuccess && wc.Opcode != op || wc.QPN != e.qp.QPN() {
		tb.Fatalf("completion is %d %v %v on %#x, want %d %v %v on %#x", wc.ID, wc.Status, wc.Opcode, wc.QPN, id, status, op, e.qp.QPN())
	}
	return wc
}

func (e *end) wantState(s qpstate.State) {
	e.node.net.tb.Helper()
	if got := e.qp.Query().State; got != s {
		e.node.net.tb.Fatalf("state is %v, want %v", got, s)
	}
}

// wantEvent removes the node's oldest event and checks its type.
func (e *end) wantEvent(t verbs.EventType) {
	e.node.net.tb.Helper()
	if len(e.node.events) == 0 {
		e.node.net.tb.Fatalf("no event, want %v", t)
	}
	if got := e.node.events[0].Type; got != t {
		e.node.net.tb.Fatalf("event %v, want %v", got, t)
	}
	e.node.events = e.node.events[1:]
}

// fill writes a pattern that depends on the index and on salt.
func fill(b []byte, salt int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + salt)
	}
}
