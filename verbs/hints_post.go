// Why a post was refused. The errno alone does not say. The queue pair's state and sizes and
// the request itself show which rule was broken. This code runs only after a refusal.

package verbs

import (
	"fmt"
	"net"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
)

// fault is a broken rule and its remedy. The zero value means that no rule was broken.
type fault struct{ reason, remedy string }

func (f fault) found() bool { return f != fault{} }

// sendRefused makes the error of a PostSend that queued n requests.
func (qp *QP) sendRefused(wrs []SendWR, n int, err error) error {
	f := qp.sendFault(wrs[min(n, len(wrs)):], errnoOf(err))
	return qp.refused(PostError{Op: "ibv_post_send", QPN: qp.QPN(), Index: n, Err: err}, f)
}

// recvRefused makes the error of a PostRecv that queued n requests.
func (qp *QP) recvRefused(wrs []RecvWR, n int, err error) error {
	f := qp.recvFault(wrs[min(n, len(wrs)):], errnoOf(err))
	return qp.refused(PostError{Op: "ibv_post_recv", QPN: qp.QPN(), Index: n, Err: err}, f)
}

// recvRefused makes the error of a PostRecv that queued n requests.
func (s *SRQ) recvRefused(wrs []RecvWR, n int, err error) error {
	var f fault
	if errnoOf(err) == syscall.EINVAL && n < len(wrs) {
		var attr SRQAttr
		if s.use(func() (err error) { attr, err = s.p.Query(); return err }) == nil {
			f = elementsFault(wrs[n].SGL, attr.MaxSGE, "SRQInit.MaxSGE")
		}
	}
	return s.refused(PostError{Op: "ibv_post_srq_recv", Index: n, Err: err}, f)
}

// refused adds the fault to the error of a post to the object.
func (h *handle) refused(e PostError, f fault) error {
	if errors.Is(e.Err, net.ErrClosed) {
		f.remedy = closedHint
	}
	e.Err, e.Reason, e.Hint = h.named(e.Err), f.reason, f.remedy
	return &e
}

// sendFault finds the rule that the first of wrs broke, or the state that forbids every post.
// After ENOMEM it does not ask the device. ENOMEM means that the queue is full, unless the request
// is too large, and programs may post until they get ENOMEM.
func (qp *QP) sendFault(wrs []SendWR, errno syscall.Errno) (f fault) {
	var now queueNow
	switch errno {
	case syscall.ENOMEM:
	case syscall.EINVAL, syscall.EOPNOTSUPP:
		now = qp.now()
		if now.state < qpstate.RTS {
			return fault{"the queue pair is in " + now.state.Name(), "move the queue pair to RTS, where sends begin"}
		}
	default:
		return fault{}
	}
	if len(wrs) > 0 {
		if f = qp.requestFault(&wrs[0]); !f.found() {
			f = lengthFault(wrs[0].SGL, now)
		}
		if !f.found() && errno == syscall.EOPNOTSUPP {
			f = missingFault(wrs[0].Opcode)
		}
	}
	if !f.found() {
		f = stoppedFault(now)
	}
	if !f.found() && errno != syscall.ENOMEM && len(wrs) > 0 && wrs[0].Flags&SendInline != 0 {
		f.remedy = "inline data only from a region without IOVA, ZERO_BASED or a DMA-BUF: it is read from addresses of this process"
	}
	return f
}

// recvFault is sendFault for receives.
func (qp *QP) recvFault(wrs []RecvWR, errno syscall.Errno) (f fault) {
	var now queueNow
	switch errno {
	case syscall.ENOMEM:
	case syscall.EINVAL, syscall.EOPNOTSUPP:
		if qp.SRQ() != nil {
			return fault{"the queue pair takes its receives from the SRQ", "post to the SRQ (SRQ.PostRecv)"}
		}
		if now = qp.now(); now.state == qpstate.Reset {
			return fault{"the queue pair is in RESET", "move the queue pair to INIT, where receives begin"}
		}
	default:
		return fault{}
	}
	if len(wrs) > 0 {
		if f = elementsFault(wrs[0].SGL, qp.Cap().MaxRecvSGE, "QPCap.MaxRecvSGE"); !f.found() {
			f = lengthFault(wrs[0].SGL, now)
		}
	}
	if !f.found() {
		f = stoppedFault(now)
	}
	return f
}

// queueNow is a queue pair's state and limit, from the device. Values that the device does not
// report are qpstate.Unknown and 0.
type queueNow struct {
	state   QPState
	longest uint32 // the longest message that its port sends, in bytes
}

// now asks the device for the state, because an error may have moved the queue pair.
func (qp *QP) now() queueNow {
	now := queueNow{state: qpstate.Unknown}
	_ = qp.use(func() error { // after Close there is nothing to find
		attr, err := qp.p.Query(qpstate.MaskState | qpstate.MaskPort)
		if err != nil {
			return err
		}
		now.state = attr.State
		port, err := qp.dev.p.QueryPort(attr.PortNum)
		now.longest = port.MaxMsgSize
		return err
	})
	return now
}

// stoppedFault is the fault on devices that refuse sends or receives after an error.
func stoppedFault(now queueNow) fault {
	if now.state != qpstate.SQE && now.state != qpstate.Error {
		return fault{}
	}
	return fault{"the queue pair is in " + now.state.Name(), "look for the first completion that failed, then reset the queue pair"}
}

// missingFault is the fault for opcodes that some devices or libraries lack.
func missingFault(o Opcode) fault {
	switch o {
	case OpAtomicWrite:
		return fault{"this queue pair has no call for " + o.String(),
			"PostWRAPI as QPInit.PostPath, on a device with CapAtomicWrite in DeviceAttrEx.Caps; or an OpRDMAWrite of 8 bytes, which is not guaranteed to be atomic"}
	case OpFlush:
		return fault{"the libibverbs of this build has no " + o.String(),
			"an OpRDMARead of the last byte written: it completes when the earlier WRITEs are visible; soft devices have FLUSH"}
	}
	return fault{}
}

func elementsFault(sgl []SGE, granted uint32, field string) fault {
	if len(sgl) <= int(granted) {
		return fault{}
	}
	return fault{fmt.Sprintf("the request has %d elements (SGEs), but %d were granted", len(sgl), granted),
		"fewer elements, or a larger " + field}
}

func lengthFault(sgl []SGE, now queueNow) fault {
	if n := sglBytes(sgl); now.longest > 0 && n > uint64(now.longest) {
		return fault{fmt.Sprintf("the request has %d bytes, but the port's largest message has %d", n, now.longest), "several requests"}
	}
	return fault{}
}

func sglBytes(sgl []SGE) (n uint64) {
	for i := range sgl {
		n += uint64(sgl[i].Length)
	}
	return n
}

// requestFault finds the rule that a send request broke in any state.
func (qp *QP) requestFault(wr *SendWR) fault {
	if f := elementsFault(wr.SGL, qp.Cap().MaxSendSGE, "QPCap.MaxSendSGE"); f.found() {
		return f
	}
	if wr.Opcode == 0 {
		return fault{"SendWR.Opcode is not set", "an Opcode, such as OpSend"}
	}
	if !hasOpcode(qp.Type(), wr.Opcode) {
		return fault{fmt.Sprintf("%s queue pairs have no %v", qp.Type().Name(), wr.Opcode), "an RC queue pair, or an opcode that this type has"}
	}
	if qp.Type() == UD {
		if f := qp.peerFault(wr.AH); f.found() {
			return f
		}
	}
	switch wr.Opcode {
	case OpBindMW:
		return qp.bindFault(wr.Bind)
	case OpLocalInv:
		return fault{}
	case OpAtomicCmpAndSwp, OpAtomicFetchAndAdd:
		if wr.RemoteAddr%8 != 0 {
			return fault{fmt.Sprintf("RemoteAddr %#x is not a multiple of 8", wr.RemoteAddr), "an aligned address: an atomic works on one aligned 64-bit word"}
		}
		if n := sglBytes(wr.SGL); n < 8 {
			return fault{fmt.Sprintf("the SGL has room for %d bytes, but an atomic returns 8 bytes", n), "an SGL of 8 bytes"}
		}
	case OpAtomicWrite:
		if wr.RemoteAddr%8 != 0 {
			return fault{fmt.Sprintf("RemoteAddr %#x is not a multiple of 8", wr.RemoteAddr), "an aligned address: ATOMIC WRITE works on one aligned 64-bit word"}
		}
		if n := sglBytes(wr.SGL); n != 8 || len(wr.SGL) != 1 {
			return fault{fmt.Sprintf("the SGL has %d elements with %d bytes in total, but an ATOMIC WRITE takes one element", len(wr.SGL), n), "an SGL of one element of 8 bytes"}
		}
	case OpFlush:
		return flushFault(wr.Flush)
	}
	if wr.Flags&SendInline == 0 {
		return fault{}
	}
	switch n, granted := sglBytes(wr.SGL), qp.Cap().MaxInlineData; {
	case wr.Opcode == OpRDMARead || wr.Opcode == OpAtomicCmpAndSwp || wr.Opcode == OpAtomicFetchAndAdd:
		return fault{wr.Opcode.String() + " returns data and cannot be inline", "the request without SendInline"}
	case n > uint64(granted):
		return fault{fmt.Sprintf("the request has %d bytes inline, but %d were granted", n, granted),
			"the request without SendInline, or a larger QPCap.MaxInlineData"}
	}
	return fault{}
}

// hasOpcode reports whether queue pairs of a type have an opcode. It returns true for types other
// than RC, UC and UD, because their opcodes are not known.
func hasOpcode(t QPType, o Opcode) bool {
	if t != RC && t != UC && t != UD {
		return true
	}
	switch o {
	case OpSend, OpSendWithImm:
		return true
	case OpRDMAWrite, OpRDMAWriteWithImm, OpLocalInv, OpBindMW:
		return t != UD
	case OpRDMARead, OpAtomicCmpAndSwp, OpAtomicFetchAndAdd, OpSendWithInvalidate, OpFlush, OpAtomicWrite:
		return t == RC
	}
	return false
}

// flushFault finds the fault in a FLUSH request.
func flushFault(f Flush) fault {
	switch {
	case f.Type == 0:
		return fault{"Flush.Type is not set", "FlushGlobal, FlushPersistent or both"}
	case f.Type&^(FlushGlobal|FlushPersistent) != 0:
		return fault{"Flush.Type " + f.Type.String() + " has unknown bits", "FlushGlobal, FlushPersistent or both"}
	case f.Level > FlushMR:
		return fault{"Flush.Level " + f.Level.String() + " is unknown", "FlushRange or FlushMR"}
	}
	return fault{}
}

// peerFault finds the fault in a datagram's address handle.
func (qp *QP) peerFault(ah *AH) fault {
	switch {
	case ah == nil:
		return fault{"the request has no AH", "an AH, made by PD.CreateAH: a datagram needs the path to its peer"}
	case ah.ended():
		return fault{"the request's AH is closed", "keep the AH open until its sends have completed"}
	case ah.parents[0] != qp.parents[0]:
		return fault{"the request's AH is of another device or protection domain", "an AH of the queue pair's PD"}
	}
	return fault{}
}

// bindFault finds the fault in the bind of a type 2 window.
func (qp *QP) bindFault(b *MWBind) fault {
	const whole = "a Bind with a window and a region, both open"
	switch {
	case b == nil:
		return fault{"the request has no Bind", whole}
	case b.MW == nil:
		return fault{"the request's Bind has no window", whole}
	case b.MR == nil:
		return fault{"the request's Bind has no region", whole}
	case b.MW.kind != MWType2:
		return fault{"the window is of type 1", "bind it with QP.BindMW, or use a window of type 2"}
	case b.MW.ended():
		return fault{"the request's window is closed", whole}
	case b.MR.ended():
		return fault{"the request's region is closed", whole}
	case b.MW.root() != qp.root() || b.MR.root() != qp.root():
		return fault{"the request's window or region is of another device", "objects of one opened device"}
	case b.RKey>>8 != b.MW.RKey()>>8:
		return fault{fmt.Sprintf("the upper 24 bits of RKey %#x differ from those of the window's key %#x", b.RKey, b.MW.RKey()), "IncRKey of the window's key"}
	}
	return fault{}
}

// ended reports whether the object was closed.
func (h *handle) ended() bool { return h.use(func() error { return nil }) != nil }

// root returns the device's handle, by following the first parents.
func (h *handle) root() *handle {
	for len(h.parents) > 0 {
		h = h.parents[0]
	}
	return h
}
