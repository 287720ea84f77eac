// Why a post was refused. The errno alone does not say. The queue pair's state and sizes and
// the request itself show which rule was broken. This code runs only after a refusal.

package verbs

import (
	"cmp"
	"fmt"
	"net"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/diagnosis"
	"github.com/rawverbs/rawverbs/qpstate"
)

// fault is a broken rule and its remedy. The zero value means that no rule was broken.
type fault struct{ reason, remedy string }

func (f fault) found() bool { return f != fault{} }

// broken returns the fault of a rule of package diagnosis. The reason names this request's
// values; "" is the rule's own cause.
func broken(rule, reason string) fault {
	e := diagnosis.ByKey(rule)
	return fault{cmp.Or(reason, e.Cause), e.Remedy}
}

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
			f = elementsFault("srq-elements", wrs[n].SGL, attr.MaxSGE)
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
			return broken("send-state", "the queue pair is in "+now.state.Name())
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
		f.remedy = diagnosis.ByKey("inline-address").Remedy // it may be the cause
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
			return broken("recv-srq", "")
		}
		if now = qp.now(); now.state == qpstate.Reset {
			return broken("recv-state", "")
		}
	default:
		return fault{}
	}
	if len(wrs) > 0 {
		if f = elementsFault("recv-elements", wrs[0].SGL, qp.Cap().MaxRecvSGE); !f.found() {
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
	return broken("post-stopped", "the queue pair is in "+now.state.Name())
}

// missingFault is the fault for opcodes that some devices or libraries lack.
func missingFault(o Opcode) fault {
	switch o {
	case OpAtomicWrite:
		return broken("no-atomic-write", "this queue pair has no call for "+o.String())
	case OpFlush:
		return broken("no-flush", "the libibverbs of this build has no "+o.String())
	}
	return fault{}
}

// elementsFault is the fault of a list of more elements than were granted.
func elementsFault(rule string, sgl []SGE, granted uint32) fault {
	if len(sgl) <= int(granted) {
		return fault{}
	}
	return broken(rule, fmt.Sprintf("the request has %d elements (SGEs), but %d were granted", len(sgl), granted))
}

func lengthFault(sgl []SGE, now queueNow) fault {
	if n := sglBytes(sgl); now.longest > 0 && n > uint64(now.longest) {
		return broken("too-long", fmt.Sprintf("the request has %d bytes, but the port's largest message has %d", n, now.longest))
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
	if f := elementsFault("send-elements", wr.SGL, qp.Cap().MaxSendSGE); f.found() {
		return f
	}
	if wr.Opcode == 0 {
		return broken("no-opcode", "")
	}
	if !hasOpcode(qp.Type(), wr.Opcode) {
		return broken("opcode-type", fmt.Sprintf("%s queue pairs have no %v", qp.Type().Name(), wr.Opcode))
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
			return broken("atomic-address", fmt.Sprintf("RemoteAddr %#x is not a multiple of 8", wr.RemoteAddr))
		}
		if n := sglBytes(wr.SGL); n < 8 {
			return broken("atomic-size", fmt.Sprintf("the SGL has room for %d bytes, but an atomic returns 8 bytes", n))
		}
	case OpAtomicWrite:
		if wr.RemoteAddr%8 != 0 {
			return broken("atomic-write-address", fmt.Sprintf("RemoteAddr %#x is not a multiple of 8", wr.RemoteAddr))
		}
		if n := sglBytes(wr.SGL); n != 8 || len(wr.SGL) != 1 {
			return broken("atomic-write-size", fmt.Sprintf("the SGL has %d elements with %d bytes in total, but an ATOMIC WRITE takes one element", len(wr.SGL), n))
		}
	case OpFlush:
		return flushFault(wr.Flush)
	}
	if wr.Flags&SendInline == 0 {
		return fault{}
	}
	switch n, granted := sglBytes(wr.SGL), qp.Cap().MaxInlineData; {
	case wr.Opcode == OpRDMARead || wr.Opcode == OpAtomicCmpAndSwp || wr.Opcode == OpAtomicFetchAndAdd:
		return broken("inline-read", wr.Opcode.String()+" returns data and cannot be inline")
	case n > uint64(granted):
		return broken("inline-size", fmt.Sprintf("the request has %d bytes inline, but %d were granted", n, granted))
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
		return broken("flush-type", "")
	case f.Type&^(FlushGlobal|FlushPersistent) != 0:
		return broken("flush-bits", "Flush.Type "+f.Type.String()+" has unknown bits")
	case f.Level > FlushMR:
		return broken("flush-level", "Flush.Level "+f.Level.String()+" is unknown")
	}
	return fault{}
}

// peerFault finds the fault in a datagram's address handle.
func (qp *QP) peerFault(ah *AH) fault {
	switch {
	case ah == nil:
		return broken("no-ah", "")
	case ah.ended():
		return broken("closed-ah", "")
	case ah.parents[0] != qp.parents[0]:
		return broken("foreign-ah", "")
	}
	return fault{}
}

// bindFault finds the fault in the bind of a type 2 window.
func (qp *QP) bindFault(b *MWBind) fault {
	switch {
	case b == nil:
		return broken("no-bind", "")
	case b.MW == nil:
		return broken("bind-no-window", "")
	case b.MR == nil:
		return broken("bind-no-region", "")
	case b.MW.kind != MWType2:
		return broken("bind-type-1", "")
	case b.MW.ended():
		return broken("bind-closed-window", "")
	case b.MR.ended():
		return broken("bind-closed-region", "")
	case b.MW.root() != qp.root() || b.MR.root() != qp.root():
		return broken("bind-foreign", "")
	case b.RKey>>8 != b.MW.RKey()>>8:
		return broken("bind-key", fmt.Sprintf("the upper 24 bits of RKey %#x differ from those of the window's key %#x", b.RKey, b.MW.RKey()))
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
