// Modifying a queue pair. qpstate decides which moves and attributes are legal. Then all values
// are checked before any is applied.

package transport

import (
	"math/bits"
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// qpAccess has the rights that a queue pair may be given. As with rdma_rxe, these are the rights of
// regions, because programs give both the same. Only the remote rights and FLUSH have a meaning
// here. A queue pair may grant FLUSH to persistent memory, but no region does.
const qpAccess = mrAccess&^verbs.AccessZeroBased | verbs.AccessFlushPersistent

// Modify applies the attributes that mask names, or none of them if it returns an error. A move
// that the transition table forbids is a *qpstate.TransitionError. A value out of range is
// EINVAL. For a bad path, Modify returns the error of Config.Resolve. Transmit must be called
// afterwards.
func (qp *QP) Modify(attr *qpstate.Attr, mask qpstate.Mask) error {
	qp.mu.Lock()
	defer qp.unlock()
	from := qp.attr.State
	to := from
	if mask&qpstate.MaskState != 0 {
		to = attr.State
	}
	if mask&qpstate.MaskCurState != 0 && attr.CurState != from {
		return syscall.EINVAL
	}
	if err := qpstate.Check(qp.kind, from, to, mask); err != nil {
		return err
	}
	if from == qpstate.SQD && qp.req.draining && mask&qpstate.MaskState != 0 && (to == qpstate.RTS || to == qpstate.SQD) {
		return syscall.EINVAL
	}
	if err := qp.checkValues(attr, mask); err != nil {
		return err
	}
	path := qp.path
	if mask&qpstate.MaskAV != 0 {
		port := qp.attr.PortNum
		if mask&qpstate.MaskPort != 0 {
			port = attr.PortNum
		}
		if attr.AH.PortNum != port {
			return syscall.EINVAL
		}
		var err error
		if path, err = qp.engine.resolve(&attr.AH); err != nil {
			return err
		}
	}
	if qp.path != path {
		path = capable(path)
		qp.join(path)
	}
	qp.path = path
	qp.apply(attr, mask)
	qp.move(from, to)
	return nil
}

// checkValues returns EINVAL for a value out of range. It accepts any PSN: as in the kernel,
// only the low 24 bits count.
func (qp *QP) checkValues(a *qpstate.Attr, mask qpstate.Mask) error {
	given := func(m qpstate.Mask) bool { return mask&m != 0 }
	switch {
	case given(qpstate.MaskPort) && a.PortNum != portNum,
		given(qpstate.MaskPKeyIndex) && a.PKeyIndex != 0,
		given(qpstate.MaskAccessFlags) && a.Access&^qpAccess != 0,
		given(qpstate.MaskAltPath), // RoCE has no alternate path
		given(qpstate.MaskPathMTU) && a.PathMTU.Bytes() == 0,
		given(qpstate.MaskMaxRdAtomic) && a.MaxRdAtomic > MaxRdAtomic,
		given(qpstate.MaskMaxDestRdAtomic) && a.MaxDestRdAtomic > MaxRdAtomic,
		given(qpstate.MaskTimeout) && a.Timeout > 31,
		given(qpstate.MaskMinRNRTimer) && a.MinRNRTimer > 31,
		given(qpstate.MaskRetryCnt) && a.RetryCnt > 7,
		given(qpstate.MaskRNRRetry) && a.RNRRetry > 7:
		return syscall.EINVAL
	}
	return nil
}

// apply copies the attributes that mask names.
func (qp *QP) apply(a *qpstate.Attr, mask qpstate.Mask) {
	q := &qp.attr
	for m := mask; m != 0; m &= m - 1 {
		switch qpstate.Mask(1) << bits.TrailingZeros32(uint32(m)) {
		case qpstate.MaskEnSQDAsyncNotify:
			q.EnSQDAsyncNotify = a.EnSQDAsyncNotify
		case qpstate.MaskAccessFlags:
			q.Access = a.Access
		case qpstate.MaskPKeyIndex:
			q.PKeyIndex = a.PKeyIndex
		case qpstate.MaskPort:
			q.PortNum = a.PortNum
		case qpstate.MaskQKey:
			q.QKey = a.QKey
		case qpstate.MaskAV:
			q.AH = a.AH
		case qpstate.MaskPathMTU:
			q.PathMTU = a.PathMTU
			qp.mtu = a.PathMTU.Bytes()
		case qpstate.MaskTimeout:
			q.Timeout = a.Timeout
		case qpstate.MaskRetryCnt:
			q.RetryCnt = a.RetryCnt
			qp.req.retries = a.RetryCnt
		case qpstate.MaskRNRRetry:
			q.RNRRetry = a.RNRRetry
			qp.req.rnrRetries = a.RNRRetry
		case qpstate.MaskRQPSN:
			q.RQPSN = uint32(packet.NewPSN(a.RQPSN))
			qp.resp.expected = int64(q.RQPSN)
		case qpstate.MaskSQPSN:
			q.SQPSN = uint32(packet.NewPSN(a.SQPSN))
			qp.req.begin(q.SQPSN)
		case qpstate.MaskMaxRdAtomic:
			q.MaxRdAtomic = a.MaxRdAtomic
		case qpstate.MaskMaxDestRdAtomic:
			q.MaxDestRdAtomic = a.MaxDestRdAtomic
			qp.resp.growSlots(int(a.MaxDestRdAtomic))
		case qpstate.MaskMinRNRTimer:
			q.MinRNRTimer = a.MinRNRTimer
		case qpstate.MaskPathMigState:
			q.PathMigState = a.PathMigState
		case qpstate.MaskDestQPN:
			q.DestQPN = a.DestQPN & 0xffffff
		}
	}
}

// move does what a change of state requires.
func (qp *QP) move(from, to qpstate.State) {
	if to == qpstate.Reset {
		qp.reset()
		return
	}
	if to == qpstate.Error {
		qp.fail(refusal{})
		qp.resp.refused = refusal{} // the program knows of the error: a NAK that is due is sent, but not repeated
		return
	}
	qp.attr.State = to
	switch {
	case to == qpstate.RTR && qp.kind == verbs.UD:
		qp.attr.PathMTU = qp.engine.cfg.MTU
		qp.mtu = qp.engine.cfg.MTU.Bytes()
	case from == qpstate.RTS && to == qpstate.SQD:
		qp.req.draining = true
		qp.req.notifyWhenDrained = qp.attr.EnSQDAsyncNotify
		qp.attr.EnSQDAsyncNotify = false
		qp.retire()
	}
	qp.wake = true
}

// Query returns all attributes. As with rdma_rxe, the PSNs are those of the next packets.
func (qp *QP) Query() qpstate.Attr {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	a := qp.attr
	a.CurState, a.Cap = a.State, qp.cap
	if qp.kind != verbs.UD && a.State != qpstate.Reset {
		a.RQPSN, a.SQPSN = uint32(packet.NewPSN(uint32(qp.resp.expected))), uint32(packet.NewPSN(uint32(qp.req.nxt)))
	}
	a.SQDraining = qp.req.draining
	return a
}
