// The programs of FuzzEngine: what a player posts and changes, and which completions it is owed.

package transport

import (
	"bytes"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// postSend posts a work request of any kind, of the player's own memory mostly.
func (p *player) postSend() {
	if len(p.sends) >= arenaDepth {
		return
	}
	in, target := p.arena.in, p.peer.rooms[0]
	what, where := in.byte(), in.byte()
	ops := []verbs.Opcode{verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead, verbs.OpAtomicFetchAndAdd, verbs.OpSendWithImm,
		verbs.OpRDMAWriteWithImm, verbs.OpAtomicCmpAndSwp, verbs.OpAtomicWrite, verbs.OpFlush, verbs.OpLocalInv, verbs.OpSendWithInvalidate}
	wr := verbs.SendWR{ID: p.nextID, Opcode: ops[int(what)%len(ops)], Flags: verbs.SendFlags(where >> 4), Imm: 7, CompareAdd: uint64(what)}
	size := []int{8, 0, 100, 256, 1000, 2000}[in.byte()%6]
	switch wr.Opcode {
	case verbs.OpAtomicFetchAndAdd, verbs.OpAtomicCmpAndSwp, verbs.OpAtomicWrite:
		size = 8
	case verbs.OpFlush:
		wr.Flush = verbs.Flush{Type: verbs.FlushGlobal, Length: 64}
	case verbs.OpLocalInv, verbs.OpSendWithInvalidate:
		wr.InvalidateRKey = p.window.mw.RKey()
	}
	offset := int(in.byte()) * 8
	if where&3 == 3 { // memory that is not there, or not granted
		target = p.peer.rooms[int(where>>2)%4]
	}
	if target.mr != nil {
		wr.RemoteAddr, wr.RKey = target.mr.Addr()+uint64(offset), target.mr.LKey()
	}
	half := size / 2 &^ 7
	switch own := p.sge(offset, size); {
	case wr.Opcode == verbs.OpAtomicWrite || half == 0:
		wr.SGL = []verbs.SGE{own}
	default:
		wr.SGL = []verbs.SGE{p.sge(offset, half), p.sge(0, size-half)}
	}
	if where&12 == 12 {
		wr.SGL[0].LKey ^= 0x100
		wr.Flags &^= verbs.SendInline // it would copy from any address
	}
	if p.opts.kind == verbs.UD {
		if p.handle == nil {
			p.handle = p.ah(p.peer.end)
		}
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = p.handle, p.peer.qp.QPN(), 0x1234
	}
	if _, err := p.qp.PostSend([]verbs.SendWR{wr}); err == nil {
		p.posted(wr.Flags)
	}
}

func (p *player) peerAddress() qpstate.AHAttr {
	a := qpstate.AHAttr{IsGlobal: true, PortNum: 1}
	a.GRH.DGID = qpstate.GIDFrom(p.peer.node.addr)
	return a
}

// posted notes a send that was queued.
func (p *player) posted(flags verbs.SendFlags) {
	p.sends = append(p.sends, owed{p.nextID, p.opts.sigAll || flags&verbs.SendSignaled != 0})
	p.nextID++
}

// postRecv posts a receive, of which some are too short and some have no memory.
func (p *player) postRecv() {
	if len(p.recvs) >= arenaDepth {
		return
	}
	what := p.arena.in.byte()
	wr := verbs.RecvWR{ID: p.nextID, SGL: []verbs.SGE{p.sge(int(what&15)*64, []int{2048, 1024, 300, 0}[what>>4&3])}}
	if what>>6 == 3 {
		wr.SGL[0].LKey ^= 0x100
	}
	n, err := 0, error(nil)
	if p.srq != nil {
		n, err = p.srq.PostRecv([]verbs.RecvWR{wr})
	} else {
		n, err = p.qp.PostRecv([]verbs.RecvWR{wr})
	}
	if n == 1 && err == nil {
		p.recvs = append(p.recvs, p.nextID)
		p.nextID++
	}
}

// bind binds the player's window, or posts a bind that fails.
func (p *player) bind() {
	if len(p.sends) >= arenaDepth || p.opts.kind == verbs.UD {
		return
	}
	what := p.arena.in.byte()
	b := p.window.part(int(what&15)*256, int(what>>4)*64, verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	err := error(nil)
	if p.window.mw.Type() == verbs.MWType1 {
		err = p.qp.BindMW(p.nextID, verbs.SendSignaled, &b)
	} else {
		_, err = p.qp.PostSend([]verbs.SendWR{{ID: p.nextID, Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: &b}})
	}
	if err == nil {
		p.posted(verbs.SendSignaled)
	}
}

// changeState asks for a move or a change of attributes, which may be illegal.
func (p *player) changeState() {
	in := p.arena.in
	what := in.byte()
	attr := qpstate.Attr{State: qpstate.State(what % 7), PathMTU: qpstate.MTU256, Access: p.opts.access, PortNum: 1, MaxRdAtomic: arenaReads,
		MaxDestRdAtomic: 1 + in.byte()%8, Timeout: 8 + in.byte()%4, RetryCnt: in.byte() % 4, RNRRetry: 3, MinRNRTimer: 1,
		EnSQDAsyncNotify: true, AH: p.peerAddress(), QKey: 0x1234, DestQPN: p.peer.qp.QPN(), RQPSN: uint32(in.byte()), SQPSN: uint32(in.byte())}
	if what&0x80 != 0 {
		attr.State = []qpstate.State{qpstate.SQD, qpstate.RTS}[what>>6&1]
	}
	mask := qpstate.MaskState
	if from := p.qp.Query().State; what&0x18 != 0 { // a legal mask, if the move is legal
		row, _ := qpstate.Lookup(p.opts.kind, from, attr.State)
		mask |= row.Required
		if what&0x18 == 0x18 {
			mask |= row.Optional &^ (qpstate.MaskAltPath | qpstate.MaskCurState)
		}
	} else {
		mask |= qpstate.Mask(in.uint16()) << (in.byte() % 8)
	}
	p.poll()
	broken := p.qp.Query().State == qpstate.SQE
	if p.qp.Modify(&attr, mask) != nil {
		return
	}
	switch {
	case attr.State == qpstate.Reset && mask&qpstate.MaskState != 0:
		p.forget()
	case broken && attr.State == qpstate.RTS:
		p.broken = false
	}
}

// changeMemory closes a region, or registers one again. What is closed must not change.
func (p *player) changeMemory() {
	r := p.rooms[int(p.arena.in.byte())%4]
	if r.mr == nil {
		if r == p.rooms[0] {
			if !bytes.Equal(r.mem, r.before) {
				p.arena.t.Error("the memory of a closed region has changed")
			}
			r.before = nil
		}
		r.open(p.arena.t)
		if r == p.rooms[0] {
			p.mr = r.mr
		}
		return
	}
	if err := r.mr.Close(); err != nil {
		p.arena.t.Error(err)
	}
	if r.mr = nil; r == p.rooms[0] {
		r.before = bytes.Clone(r.mem)
	}
}

// arm asks for one Notify of the next completion, of any or of one that is solicited or failed.
func (p *player) arm() {
	p.scq.Arm(p.arena.in.byte()%2 == 0)
	p.armed = 1
}

// reregister gives the first room other rights, and keeps its key.
func (p *player) reregister() {
	r := p.rooms[0]
	if r.mr == nil {
		return
	}
	access := []verbs.Access{r.access, verbs.AccessLocalWrite, verbs.AccessRemoteRead, 0}[p.arena.in.byte()%4]
	if err := r.mr.Rereg(r.pd, r.mem, addressOf(r.mem), access); err != nil {
		p.arena.t.Error(err)
	}
}

// poll compares the completions with what is owed.
func (p *player) poll() {
	var wcs [8]verbs.WC
	for n := p.scq.Poll(wcs[:]); n > 0; n = p.scq.Poll(wcs[:]) {
		for i := range wcs[:n] {
			p.completed(&wcs[i])
		}
	}
	for n := p.rcq.Poll(wcs[:]); n > 0; n = p.rcq.Poll(wcs[:]) {
		for i := range wcs[:n] {
			p.received(&wcs[i])
		}
	}
	if p.overruns && p.qp.Query().State == qpstate.Error {
		p.sends, p.recvs = nil, nil // their completions may be lost
	}
}

// due returns how many completions are still owed in ERR or SQE, where everything is flushed. A send without
// a signal may have ended without one.
func (p *player) due(s qpstate.State) (sends, recvs int) {
	for _, w := range p.sends {
		if w.signaled || p.broken {
			sends++
		}
	}
	if s == qpstate.Error && p.srq == nil {
		recvs = len(p.recvs)
	}
	return sends, recvs
}

// completed checks the completion of a send: in order, once, and all of them from the first error on.
func (p *player) completed(wc *verbs.WC) {
	t := p.arena.t
	for len(p.sends) > 0 {
		s := p.sends[0]
		p.sends = p.sends[1:]
		if s.id == wc.ID {
			if wc.QPN != p.qp.QPN() || p.broken && wc.Status != verbs.WCWRFlushErr || wc.Status == verbs.WCSuccess && !s.signaled {
				t.Errorf("send %d (signaled %v, after an error %v) completed with %v on %#x", s.id, s.signaled, p.broken, wc.Status, wc.QPN)
			}
			p.broken = p.broken || wc.Status != verbs.WCSuccess
			return
		}
		if (s.signaled || p.broken) && !p.overruns {
			t.Errorf("send %d has not completed, but %d has with %v", s.id, wc.ID, wc.Status)
		}
	}
	t.Errorf("send %d completed with %v, and was not owed", wc.ID, wc.Status)
}

// received checks the completion of a receive: in order, and once.
func (p *player) received(wc *verbs.WC) {
	for len(p.recvs) > 0 {
		id := p.recvs[0]
		p.recvs = p.recvs[1:]
		if id == wc.ID {
			if wc.QPN != p.qp.QPN() || wc.Status == verbs.WCSuccess && wc.ByteLen > 2048 {
				p.arena.t.Errorf("receive %d completed with %v, %d bytes, on %#x", wc.ID, wc.Status, wc.ByteLen, wc.QPN)
			}
			return
		}
		if !p.overruns {
			p.arena.t.Errorf("receive %d has not completed, but %d has with %v", id, wc.ID, wc.Status)
		}
	}
	p.arena.t.Errorf("receive %d completed with %v, and was not owed", wc.ID, wc.Status)
}
