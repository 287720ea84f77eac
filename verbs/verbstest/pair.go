// Pairs of connected queue pairs on one device: their objects, and the attributes of their
// moves.

package verbstest

import (
	"bytes"
	"math/rand/v2"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// The defaults of a pair.
const (
	defaultSize      = 64 << 10
	defaultDepth     = 32
	defaultQKey      = 0x1ee7c0de
	onePort          = 1
	everything       = verbs.AccessLocalWrite | remoteEverything
	remoteEverything = verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
)

const (
	grhBytes  = 40                    // at the beginning of each UD receive
	quietTime = 60 * time.Millisecond // how long quiet waits for a completion that must not come
)

func defaultCap() verbs.QPCap {
	return verbs.QPCap{MaxSendWR: defaultDepth, MaxRecvWR: defaultDepth, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64}
}

// made ends the case if an object could not be created. Otherwise the case closes it at its
// end.
func made[T interface{ Close() error }](e *Env, object T, err error) T {
	if err != nil {
		e.Fatalf("%v", err)
	}
	e.Cleanup(object.Close)
	return object
}

func (e *Env) pd() *verbs.PD {
	pd, err := e.Dev.AllocPD()
	return made(e, pd, err)
}

func (e *Env) channel() *verbs.CompChannel {
	ch, err := e.Dev.CreateCompChannel()
	return made(e, ch, err)
}

// cq returns a CQ that supports waiting.
func (e *Env) cq(depth int) *verbs.CQ { return e.cqOn(nil, depth) }

// cqOn returns a CQ on a channel, or on its own channel if ch is nil.
func (e *Env) cqOn(ch *verbs.CompChannel, depth int) *verbs.CQ {
	if ch == nil {
		ch = e.channel()
	}
	cq, err := e.Dev.CreateCQ(verbs.CQInit{Depth: depth, Channel: ch})
	return made(e, cq, err)
}

func (e *Env) mr(pd *verbs.PD, size int, access verbs.Access) *verbs.MR {
	mr, err := pd.AllocMR(size, access)
	return made(e, mr, err)
}

func (e *Env) srq(pd *verbs.PD, wrs, sges uint32) *verbs.SRQ {
	srq, err := pd.CreateSRQ(verbs.SRQInit{MaxWR: wrs, MaxSGE: sges})
	return made(e, srq, err)
}

func (e *Env) qp(pd *verbs.PD, init verbs.QPInit) *verbs.QP {
	qp, err := pd.CreateQP(init)
	return made(e, qp, err)
}

// plainQP returns a queue pair in RESET with its own domain and CQ.
func (e *Env) plainQP(typ verbs.QPType) *verbs.QP {
	cq := e.cq(4 * defaultDepth)
	return e.qp(e.pd(), verbs.QPInit{Type: typ, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()})
}

func (e *Env) device() verbs.DeviceAttr {
	attr, err := e.Dev.Query()
	e.ok(err, "Query")
	return attr
}

func (e *Env) port() verbs.PortAttr {
	port, err := e.Dev.QueryPort(onePort)
	e.ok(err, "QueryPort")
	return port
}

// route returns the path from the device to itself.
func (e *Env) route() verbs.AHAttr {
	if e.way != nil {
		return *e.way
	}
	way := verbs.AHAttr{PortNum: onePort}
	if port := e.port(); port.LinkLayer != verbs.LinkEthernet {
		way.DLID = port.LID
	} else {
		table, err := e.Dev.QueryGIDTable()
		e.ok(err, "QueryGIDTable")
		gid, _, err := verbs.ChooseGID(table, verbs.GIDSelection{})
		e.ok(err, "ChooseGID")
		way.IsGlobal = true
		way.GRH = verbs.GRH{DGID: gid.GID, SGIDIndex: uint8(gid.Index), HopLimit: 64}
	}
	e.way = &way
	return way
}

// attr returns good values for all attributes, except the peer's queue pair number.
func (e *Env) attr() verbs.QPAttr {
	device, port := e.device(), e.port()
	return verbs.QPAttr{
		PathMTU: port.ActiveMTU, QKey: defaultQKey, RQPSN: 0x123456, SQPSN: 0x123456, Access: remoteEverything,
		AH: e.route(), AltAH: e.route(), AltPortNum: onePort, AltTimeout: 14, PortNum: onePort,
		MaxRdAtomic: uint8(min(16, device.MaxQPInitRdAtom)), MaxDestRdAtomic: uint8(min(16, device.MaxQPRdAtom)),
		Timeout: 14, RetryCnt: 6, RNRRetry: 6, MinRNRTimer: 12,
	}
}

// end is one of two connected queue pairs, with a region for its data.
type end struct {
	e          *Env
	pd         *verbs.PD
	send, recv *verbs.CQ
	srq        *verbs.SRQ // nil: the queue pair has its own receive queue
	qp         *verbs.QP
	machine    *qpstate.Machine
	mr         *verbs.MR
	attr       verbs.QPAttr // attributes for its moves
	ah         *verbs.AH    // UD: address of the device itself
}

// wiring describes a pair. The zero value is an RC pair with all rights.
type wiring struct {
	typ     verbs.QPType
	cap     verbs.QPCap  // zero: defaultCap
	size    int          // size of each end's region
	access  verbs.Access // rights of the regions
	sigAll  bool
	srq     bool // the receives come from SRQs, as large as the receive queues would be
	path    verbs.PostPath
	cqDepth int
	channel *verbs.CompChannel       // channel of the CQs; nil: each has its own
	leave   verbs.QPState            // b stays in this state: RTR or INIT; 0 means RTS
	tune    func(a, b *verbs.QPAttr) // changes attributes before the moves
	before  func(a, b *end)          // called when both ends are in INIT
}

// pair creates two ends and connects them.
func (e *Env) pair(w wiring) (a, b *end) {
	a, b = e.end(w), e.end(w)
	a.attr.DestQPN, b.attr.DestQPN = b.qp.QPN(), a.qp.QPN()
	if w.tune != nil {
		w.tune(&a.attr, &b.attr)
	}
	for _, x := range []*end{a, b} {
		e.ok(x.machine.ToInit(x.attr), "ToInit")
	}
	if w.before != nil {
		w.before(a, b)
	}
	a.toRTS()
	switch w.leave {
	case qpstate.Init:
	case qpstate.RTR:
		e.ok(b.machine.ToRTR(b.attr), "ToRTR")
	default:
		b.toRTS()
	}
	return a, b
}

// rc returns a pair with the defaults.
func (e *Env) rc() (a, b *end) { return e.pair(wiring{}) }

// end returns an end whose queue pair is in RESET.
func (e *Env) end(w wiring) *end {
	w = w.complete()
	x := &end{e: e, pd: e.pd(), send: e.cqOn(w.channel, w.cqDepth), recv: e.cqOn(w.channel, w.cqDepth), attr: e.attr()}
	x.mr = e.mr(x.pd, w.size, w.access)
	if w.typ == verbs.UD {
		ah, err := x.pd.CreateAH(e.route())
		x.ah = made(e, ah, err)
	}
	if w.srq {
		x.srq = e.srq(x.pd, w.cap.MaxRecvWR, w.cap.MaxRecvSGE)
	}
	x.makeQP(w)
	return x
}

// sibling returns an end with x's objects but its own queue pair.
func (x *end) sibling(w wiring) *end {
	s := *x
	s.makeQP(w.complete())
	return &s
}

func (x *end) makeQP(w wiring) {
	x.qp = x.e.qp(x.pd, verbs.QPInit{Type: w.typ, SendCQ: x.send, RecvCQ: x.recv, SRQ: x.srq, Cap: w.cap, SigAll: w.sigAll, PostPath: w.path})
	x.machine = qpstate.NewMachine(w.typ, x.qp, nil)
}

// complete replaces zero values by the defaults.
func (w wiring) complete() wiring {
	if w.typ == 0 {
		w.typ = verbs.RC
	}
	if w.cap == (verbs.QPCap{}) {
		w.cap = defaultCap()
	}
	if w.cqDepth == 0 {
		w.cqDepth = int(2 * max(w.cap.MaxSendWR, w.cap.MaxRecvWR))
	}
	if w.size == 0 {
		w.size = defaultSize
	}
	if w.access == 0 {
		w.access = everything
	}
	return w
}

// toRTS moves an end from INIT to RTS.
func (x *end) toRTS() {
	x.e.ok(x.machine.ToRTR(x.attr), "ToRTR")
	x.e.ok(x.machine.ToRTS(x.attr), "ToRTS")
}

// state queries the device for the queue pair's state.
func (x *end) state() verbs.QPState {
	attr, err := x.qp.Query(qpstate.MaskState)
	x.e.ok(err, "Query")
	return attr.State
}

// inState reports a fault unless the queue pair reaches the state. After an error, a device may
// take a moment.
func (x *end) inState(want verbs.QPState) {
	var got verbs.QPState
	if x.e.until(func() bool { got = x.state(); return got == want }) {
		return
	}
	x.e.Errorf("the queue pair is in %s, want %s", got.Name(), want.Name())
}

// sge returns n bytes of the end's region as a list.
func (x *end) sge(off, n int) []verbs.SGE { return []verbs.SGE{x.mr.SGE(off, n)} }

// bytes returns n bytes of the end's region.
func (x *end) bytes(off, n int) []byte { return x.mr.Bytes()[off : off+n] }

// fill writes n random bytes at off and returns a copy.
func (x *end) fill(off, n int) []byte {
	b := x.bytes(off, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return bytes.Clone(b)
}

// remote sets a request's remote address to the peer's memory from off on.
func (x *end) remote(wr verbs.SendWR, peer *end, off int) verbs.SendWR {
	wr.RemoteAddr, wr.RKey = peer.mr.Addr()+uint64(off), peer.mr.RKey()
	return wr
}

// to sets a datagram's destination to the peer.
func (x *end) to(wr verbs.SendWR, peer *end) verbs.SendWR {
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = x.ah, peer.qp.QPN(), peer.attr.QKey
	return wr
}

// post posts sends, which must be accepted.
func (x *end) post(wrs ...verbs.SendWR) { x.e.ok(x.qp.PostSend(wrs), "PostSend") }

// signaled posts a signaled send.
func (x *end) signaled(wr verbs.SendWR) {
	wr.Flags |= verbs.SendSignaled
	x.post(wr)
}

// receives posts n receives of size bytes each, back to back from off on. Their IDs start at 0.
func (x *end) receives(n, off, size int) {
	for i := range n {
		x.receive(uint64(i), x.sge(off+i*size, size)...)
	}
}

func (x *end) receive(id uint64, sgl ...verbs.SGE) {
	x.e.ok(x.postRecv([]verbs.RecvWR{{ID: id, SGL: sgl}}), "PostRecv")
}

// postRecv posts receives to the end's SRQ or queue pair.
func (x *end) postRecv(wrs []verbs.RecvWR) error {
	if x.srq != nil {
		return x.srq.PostRecv(wrs)
	}
	return x.qp.PostRecv(wrs)
}

// collect waits for n completions, for each as long as the case's patience.
func (e *Env) collect(cq *verbs.CQ, n int, what string) []verbs.WC {
	all := make([]verbs.WC, n)
	for got := 0; got < n; {
		ctx, cancel := e.patient()
		k, err := cq.Wait(ctx, all[got:])
		cancel()
		if err != nil {
			e.Fatalf("%s: got %d of %d completions: %v", what, got, n, err)
		}
		got += k
	}
	return all
}

// sent waits for n completions of sends, and received for n of receives.
func (x *end) sent(n int) []verbs.WC     { return x.e.collect(x.send, n, "sends") }
func (x *end) received(n int) []verbs.WC { return x.e.collect(x.recv, n, "receives") }

// done waits for the successful completion of a send.
func (x *end) done() verbs.WC { return x.e.success(x.sent(1)[0], "the send") }

// got waits for the successful completion of a receive.
func (x *end) got() verbs.WC { return x.e.success(x.received(1)[0], "the receive") }

func (e *Env) success(wc verbs.WC, what string) verbs.WC {
	if err := wc.Err(); err != nil {
		e.Fatalf("%s: %v", what, err)
	}
	return wc
}

// status reports a fault unless the completion has one of the statuses.
func (e *Env) status(what string, wc verbs.WC, want ...verbs.WCStatus) {
	for _, s := range want {
		if wc.Status == s {
			return
		}
	}
	e.Errorf("%s: got %v, want %v", what, wc.Status, want)
}

// quiet reports a fault if a completion arrives.
func (e *Env) quiet(cq *verbs.CQ, what string) {
	time.Sleep(quietTime)
	var wcs [4]verbs.WC
	if n, err := cq.Poll(wcs[:]); n != 0 || err != nil {
		e.Errorf("%s: want no completion, got %d: %+v, %v", what, n, wcs[:n], err)
	}
}

// same reports a fault unless got and want are equal.
func (e *Env) same(what string, got, want []byte) {
	if len(got) != len(want) {
		e.Errorf("%s: %d bytes, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		if got[i] != want[i] {
			e.Errorf("%s: byte %d of %d is %#02x, want %#02x", what, i, len(got), got[i], want[i])
			return
		}
	}
}

// works checks that the pair carries a message in each direction.
func works(a, b *end) {
	for _, way := range []struct{ from, to *end }{{a, b}, {b, a}} {
		head := 0
		if way.from.ah != nil {
			head = grhBytes
		}
		want := way.from.fill(0, 100)
		way.to.receive(77, way.to.sge(1000, head+100)...)
		way.from.signaled(way.from.toIf(verbs.SendWR{ID: 7, Opcode: verbs.OpSend, SGL: way.from.sge(0, 100)}, way.to))
		way.from.done()
		if wc := way.to.got(); wc.ID != 77 || int(wc.ByteLen) != head+100 {
			way.to.e.Errorf("the receive is %+v", wc)
		}
		way.to.e.same("the message", way.to.bytes(1000+head, 100), want)
	}
}

// toIf sets the destination of a request on UD. It does nothing for other types.
func (x *end) toIf(wr verbs.SendWR, peer *end) verbs.SendWR {
	if x.ah == nil {
		return wr
	}
	return x.to(wr, peer)
}
