//go:build !rdma

package verbs_test

import (
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// bench is one device with a region, and the objects that a test makes.
type bench struct {
	t   *testing.T
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	mr  *verbs.MR
	gid verbs.GIDEntry
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dev: must(verbs.Open("soft0"))}
	b.pd = must(b.dev.AllocPD())
	b.cq = must(b.dev.CreateCQ(verbs.CQInit{Depth: 64}))
	b.mr = must(b.pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteAtomic|verbs.AccessMWBind))
	b.gid = must(b.dev.QueryGIDTable())[0]
	t.Cleanup(func() { check(b.dev.Close()) })
	t.Cleanup(func() { check(b.pd.Close()) })
	t.Cleanup(func() { check(b.cq.Close()) })
	t.Cleanup(func() { check(b.mr.Close()) })
	return b
}

// qp makes a queue pair that is its own peer, in the given state.
func (b *bench) qp(typ verbs.QPType, state verbs.QPState, srq *verbs.SRQ) *verbs.QP {
	qp := must(b.pd.CreateQP(verbs.QPInit{Type: typ, SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 32}}))
	b.t.Cleanup(func() { check(qp.Close()) })
	m := qpstate.NewMachine(typ, qp, nil)
	for _, move := range []func() error{
		func() error {
			return m.ToInit(verbs.QPAttr{PortNum: 1, QKey: 1, Access: verbs.AccessRemoteRead | verbs.AccessRemoteAtomic})
		},
		func() error {
			return m.ToRTR(verbs.QPAttr{PathMTU: qpstate.MTU1024, DestQPN: qp.QPN(), MaxDestRdAtomic: 1, MinRNRTimer: 12, AH: b.way()})
		},
		func() error {
			return m.ToRTS(verbs.QPAttr{Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1})
		},
		m.ToError,
	} {
		if m.State() == state {
			return qp
		}
		check(move())
	}
	return qp
}

func (b *bench) way() verbs.AHAttr {
	return verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GRH{DGID: b.gid.GID, SGIDIndex: uint8(b.gid.Index), HopLimit: 64}}
}

// reasons are texts that only the errors of their own reason contain.
var reasons = []string{
	"is in RESET", "is in INIT", "is in RTR", "is in ERR", "elements", "bytes inline", "cannot be inline", "inline data only from", "no AH", "AH is closed", "another device or protection domain", "have no IBV_WR_", "multiple of 8", "8 bytes", "bytes in total", "Flush.Type is not set", "unknown bits", "Flush.Level",
	"the SRQ", "SendWR.Opcode is not set", "queue is full", "type 1", "no Bind", "no window", "no region", "window is closed", "region is closed", "upper 24 bits", "is closed: use of", "largest message",
}

// refused fails the test unless the error gives exactly the one reason, and a remedy.
func (b *bench) refused(err error, errno syscall.Errno, own ...string) {
	b.t.Helper()
	var pe *verbs.PostError
	if !errors.As(err, &pe) || !errors.Is(err, errno) {
		b.t.Fatalf("got %v, want %v", err, errno)
	}
	for _, reason := range reasons {
		if has, want := strings.Contains(err.Error(), reason), slices.Contains(own, reason); has != want {
			b.t.Errorf("%v\nhas %q: %t", err, reason, has)
		}
	}
	if !strings.Contains(err.Error(), "; try: ") {
		b.t.Errorf("no remedy: %v", err)
	}
}

func TestPostSendFindsTheReason(t *testing.T) {
	b := newBench(t)
	sge := b.mr.SGE(0, 8)
	one := []verbs.SGE{sge}
	closedAH := must(b.pd.CreateAH(b.way()))
	check(closedAH.Close())
	other := must(b.dev.AllocPD())
	defer other.Close()
	otherAH := must(other.CreateAH(b.way()))
	defer otherAH.Close()
	chosen := must(b.pd.AllocMRWith(4096, verbs.AccessLocalWrite, verbs.MROptions{IOVA: 0x7000_0000_0000}))
	defer chosen.Close()
	mw1, mw2 := must(b.pd.AllocMW(verbs.MWType1)), must(b.pd.AllocMW(verbs.MWType2))
	defer mw1.Close()
	defer mw2.Close()
	key := verbs.IncRKey(mw2.RKey())

	for name, c := range map[string]struct {
		typ   verbs.QPType
		state verbs.QPState
		wr    verbs.SendWR
		own   []string
	}{
		"in RESET":      {verbs.RC, qpstate.Reset, verbs.SendWR{Opcode: verbs.OpSend, SGL: one}, []string{"is in RESET"}},
		"in INIT":       {verbs.UC, qpstate.Init, verbs.SendWR{Opcode: verbs.OpSend, SGL: one}, []string{"is in INIT"}},
		"in RTR":        {verbs.RC, qpstate.RTR, verbs.SendWR{Opcode: verbs.OpSend, SGL: one}, []string{"is in RTR"}},
		"UD in RTR":     {verbs.UD, qpstate.RTR, verbs.SendWR{Opcode: verbs.OpSend, SGL: one}, []string{"is in RTR"}},
		"elements":      {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{sge, sge, sge}}, []string{"elements"}},
		"no AH":         {verbs.UD, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpSend, SGL: one}, []string{"no AH"}},
		"closed AH":     {verbs.UD, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpSend, SGL: one, AH: closedAH}, []string{"AH is closed"}},
		"other AH":      {verbs.UD, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpSend, SGL: one, AH: otherAH}, []string{"another device or protection domain"}},
		"inline":        {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, SGL: []verbs.SGE{b.mr.SGE(0, 33)}}, []string{"bytes inline"}},
		"inline READ":   {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpRDMARead, Flags: verbs.SendInline, SGL: one}, []string{"cannot be inline"}},
		"inline IOVA":   {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, SGL: []verbs.SGE{chosen.SGE(0, 8)}}, []string{"inline data only from"}},
		"READ on UC":    {verbs.UC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: one}, []string{"have no IBV_WR_"}},
		"WRITE on UD":   {verbs.UD, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: one}, []string{"have no IBV_WR_"}},
		"no opcode":     {verbs.RC, qpstate.RTS, verbs.SendWR{SGL: one}, []string{"SendWR.Opcode is not set"}},
		"no opcode, UD": {verbs.UD, qpstate.RTS, verbs.SendWR{SGL: one}, []string{"SendWR.Opcode is not set"}},
		"no opcode, UC": {verbs.UC, qpstate.RTS, verbs.SendWR{Flags: verbs.SendInline, SGL: one}, []string{"SendWR.Opcode is not set"}},
		"TSO":           {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpTSO, SGL: one}, []string{"have no IBV_WR_"}},
		"unaligned":     {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpAtomicFetchAndAdd, SGL: one, RemoteAddr: b.mr.Addr() + 4}, []string{"multiple of 8"}},
		"short atomic":  {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpAtomicCmpAndSwp, SGL: []verbs.SGE{b.mr.SGE(0, 4)}, RemoteAddr: b.mr.Addr()}, []string{"8 bytes"}},
		"odd word":      {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpAtomicWrite, SGL: one, RemoteAddr: b.mr.Addr() + 4}, []string{"multiple of 8"}},
		"short word":    {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpAtomicWrite, SGL: []verbs.SGE{b.mr.SGE(0, 4)}}, []string{"8 bytes", "elements", "bytes in total"}},
		"word on UC":    {verbs.UC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpAtomicWrite, SGL: one}, []string{"have no IBV_WR_"}},
		"flush what":    {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpFlush}, []string{"Flush.Type is not set"}},
		"flush where":   {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpFlush, Flush: verbs.Flush{Type: 8}}, []string{"unknown bits"}},
		"flush level":   {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpFlush, Flush: verbs.Flush{Type: verbs.FlushGlobal, Level: 2}}, []string{"Flush.Level"}},
		"flush on UC":   {verbs.UC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpFlush}, []string{"have no IBV_WR_"}},
		"too long":      {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: 1<<32 - 1}}}, []string{"largest message"}},
		"no Bind":       {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpBindMW}, []string{"no Bind"}},
		"no window":     {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.MWBind{MR: b.mr}}, []string{"no window"}},
		"no region":     {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.MWBind{MW: mw2, RKey: key}}, []string{"no region"}},
		"type 1 window": {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.MWBind{MW: mw1, MR: b.mr}}, []string{"type 1"}},
		"another key":   {verbs.RC, qpstate.RTS, verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.MWBind{MW: mw2, MR: b.mr, RKey: key ^ 0x100}}, []string{"upper 24 bits"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			b.refused(b.qp(c.typ, c.state, nil).PostSend([]verbs.SendWR{c.wr}), syscall.EINVAL, c.own...)
		})
	}
}

// TestPostSendFindsTheReasonOfOne covers a refused request that is not the first, a full queue, a
// queue pair that an error has moved, a closed queue pair, and a post without requests.
func TestPostSendFindsTheReasonOfOne(t *testing.T) {
	b := newBench(t)
	qp := b.qp(verbs.RC, qpstate.RTS, nil)
	ok := verbs.SendWR{Opcode: verbs.OpSend}
	odd := verbs.SendWR{Opcode: verbs.OpAtomicFetchAndAdd, SGL: []verbs.SGE{b.mr.SGE(0, 8)}, RemoteAddr: 1}
	b.refused(qp.PostSend([]verbs.SendWR{ok, odd, ok}), syscall.EINVAL, "multiple of 8")
	b.refused(qp.PostSend([]verbs.SendWR{ok, ok, ok, ok, ok}), syscall.ENOMEM, "queue is full")
	b.refused(b.qp(verbs.RC, qpstate.RTR, nil).PostSend(nil), syscall.EINVAL, "is in RTR")

	closed := b.qp(verbs.RC, qpstate.RTS, nil)
	check(closed.Close())
	err := closed.PostSend([]verbs.SendWR{odd})
	if !errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "multiple of 8") {
		t.Errorf("after Close: %v", err)
	}
}

func TestPostRecvFindsTheReason(t *testing.T) {
	b := newBench(t)
	srq := must(b.pd.CreateSRQ(verbs.SRQInit{MaxWR: 2, MaxSGE: 2}))
	t.Cleanup(func() { check(srq.Close()) })
	three := []verbs.RecvWR{{SGL: []verbs.SGE{b.mr.SGE(0, 8), b.mr.SGE(0, 8), b.mr.SGE(0, 8)}}}
	none := make([]verbs.RecvWR, 1)
	long := []verbs.RecvWR{{SGL: []verbs.SGE{{Length: 1<<32 - 1}}}}

	b.refused(b.qp(verbs.RC, qpstate.Reset, nil).PostRecv(none), syscall.EINVAL, "is in RESET")
	b.refused(b.qp(verbs.RC, qpstate.Init, nil).PostRecv(three), syscall.EINVAL, "elements")
	b.refused(b.qp(verbs.RC, qpstate.Init, nil).PostRecv(long), syscall.EINVAL, "largest message")
	b.refused(b.qp(verbs.RC, qpstate.Init, nil).PostRecv(make([]verbs.RecvWR, 5)), syscall.ENOMEM, "queue is full")
	b.refused(b.qp(verbs.RC, qpstate.Init, srq).PostRecv(none), syscall.EINVAL, "the SRQ")

	b.refused(srq.PostRecv(three), syscall.EINVAL, "elements")
	b.refused(srq.PostRecv(long), syscall.EINVAL, "largest message")
	err := srq.PostRecv(make([]verbs.RecvWR, 3))
	if !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "the SRQ is full") || strings.Contains(err.Error(), "elements") {
		t.Errorf("got %v", err)
	}
}
