// Posting: checking work requests and copying them into the queues. The errnos are those of
// rxe: ENOMEM if the queue is full, EINVAL for everything else.

package transport

import (
	"syscall"
	"unsafe"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// PostSend queues work requests in order. It returns the number n of queued requests. If it
// returns an error, wrs[n] is the refused one. In a state before RTS it returns EINVAL. In ERR
// and SQE it queues the requests and flushes them at once. Transmit must be called afterwards.
func (qp *QP) PostSend(wrs []verbs.SendWR) (int, error) {
	qp.mu.Lock()
	defer qp.unlock()
	if err := qp.sendable(); err != nil {
		return 0, err
	}
	r := &qp.req
	n, err := 0, error(nil)
	for ; n < len(wrs); n++ {
		var w *sendWQE
		if w, err = r.place(); err != nil {
			break
		}
		if err = qp.take(w, &wrs[n]); err != nil {
			break
		}
		r.tail++
	}
	qp.posted(n)
	return n, err
}

// sendable returns EINVAL in a state that does not accept sends.
func (qp *QP) sendable() error {
	switch qp.attr.State {
	case qpstate.Reset, qpstate.Init, qpstate.RTR:
		return syscall.EINVAL
	}
	return nil
}

// place returns the ring's entry for the next request, or ENOMEM if the queue is full.
func (r *requester) place() (*sendWQE, error) {
	if r.tail-r.head == uint64(len(r.wqes)) {
		return nil, syscall.ENOMEM
	}
	return r.wqe(r.tail), nil
}

// posted must be called after n requests were queued.
func (qp *QP) posted(n int) {
	if qp.attr.State == qpstate.Error || qp.attr.State == qpstate.SQE {
		qp.flushSends()
	}
	qp.wake = n > 0
}

// serves reports whether a queue pair of this type supports op.
func (qp *QP) serves(op verbs.Opcode) bool {
	return qp.transport.Serves(op) || isLocal(op) && qp.kind != verbs.UD
}

// isLocal reports whether a work request sends no packet.
func isLocal(op verbs.Opcode) bool { return op == verbs.OpLocalInv || op == verbs.OpBindMW }

// take copies a request into w. It returns EINVAL if the queue pair does not support the
// request.
func (qp *QP) take(w *sendWQE, wr *verbs.SendWR) error {
	length := sglLength(wr.SGL)
	if !qp.serves(wr.Opcode) || len(wr.SGL) > int(qp.cap.MaxSendSGE) || length > MaxMessage {
		return syscall.EINVAL
	}
	inline := wr.Flags&verbs.SendInline != 0
	var path *Path
	var way *route
	switch wr.Opcode {
	case verbs.OpRDMARead:
		if inline {
			return syscall.EINVAL
		}
	case verbs.OpAtomicCmpAndSwp, verbs.OpAtomicFetchAndAdd:
		if inline || length < atomicLen || wr.RemoteAddr%atomicLen != 0 {
			return syscall.EINVAL
		}
		length = atomicLen
	case verbs.OpAtomicWrite:
		if length != atomicLen || len(wr.SGL) != 1 || wr.RemoteAddr%atomicLen != 0 {
			return syscall.EINVAL
		}
	case verbs.OpFlush:
		if !flushable(wr.Flush.Type, wr.Flush.Level) {
			return syscall.EINVAL
		}
	}
	if qp.kind == verbs.UD {
		if wr.AH == nil {
			return syscall.EINVAL
		}
		ah, ok := verbs.ProviderOf(wr.AH).(*AH)
		if !ok || ah.pd != qp.pd || ah.closed.Load() {
			return syscall.EINVAL
		}
		path, way = ah.path, ah.route
	}
	if isLocal(wr.Opcode) {
		return qp.takeLocal(w, wr)
	}
	if wr.Opcode == verbs.OpFlush {
		list := w.wr.SGL[:0] // the queue's own memory, not the caller's
		*w = sendWQE{wr: *wr, inline: w.inline[:0]}
		w.wr.SGL, w.wr.AH, w.wr.Bind = list, nil, nil
		return nil
	}
	data := w.inline[:0]
	if inline {
		if length > uint64(qp.cap.MaxInlineData) || qp.remapped(wr.SGL) {
			return syscall.EINVAL
		}
		data = data[:length]
		copyInline(data, wr.SGL)
	}
	sgl := append(w.wr.SGL[:0], wr.SGL...)
	*w = sendWQE{wr: *wr, inline: data, path: path, route: way, length: int(length)}
	w.wr.SGL, w.wr.AH, w.wr.Bind = sgl, nil, nil
	return nil
}

// takeLocal copies a request that sends no packet. Such a request has no SGL.
func (qp *QP) takeLocal(w *sendWQE, wr *verbs.SendWR) error {
	var b binding
	if wr.Opcode == verbs.OpBindMW {
		err := wr.Bind.Check()
		if err == nil {
			b, err = qp.takeBind(wr.Bind)
		}
		if err != nil {
			return err
		}
	}
	*w = sendWQE{wr: verbs.SendWR{ID: wr.ID, Flags: wr.Flags &^ verbs.SendInline, Opcode: wr.Opcode, SGL: w.wr.SGL[:0],
		InvalidateRKey: wr.InvalidateRKey}, inline: w.inline[:0]}
	if b.mw != nil {
		qp.req.setBinding(qp.req.tail, b)
	}
	return nil
}

// remapped reports whether an element's addresses differ from those of its region's memory.
// copyInline would use such an address as a pointer.
func (qp *QP) remapped(sgl []verbs.SGE) bool {
	for i := range sgl {
		if mr := qp.local(sgl[i].LKey); mr != nil && mr.remapped() {
			return true
		}
	}
	return false
}

// copyInline copies the data of an inline request from the program's memory. It ignores the
// lkeys, because inline data need not be registered.
func copyInline(dst []byte, sgl []verbs.SGE) {
	for i := range sgl {
		if n := int(sgl[i].Length); n > 0 {
			// The caller made the address from a pointer. As in C, a wrong address is the
			// program's error and may crash it.
			p := *(*unsafe.Pointer)(unsafe.Pointer(&sgl[i].Addr))
			dst = dst[copy(dst, unsafe.Slice((*byte)(p), n)):]
		}
	}
}

// PostRecv queues receives in order and returns how many it has queued. It returns EINVAL in
// RESET and for a queue pair with an SRQ. In ERR it flushes the receives at once.
func (qp *QP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	qp.mu.Lock()
	defer qp.unlock()
	if qp.attr.State == qpstate.Reset || qp.srq != nil {
		return 0, syscall.EINVAL
	}
	n, err := 0, error(nil)
	for ; n < len(wrs); n++ {
		if err = qp.rq.push(&wrs[n]); err != nil {
			break
		}
	}
	if qp.attr.State == qpstate.Error {
		qp.flushRecvs()
	}
	return n, err
}
