// The responder's part that serves requests of one word, and FLUSH: their answers bring
// no data of a region, so that the work is done when the request comes.

package transport

import (
	"encoding/binary"
	"unsafe"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// serveAtomic does an atomic and keeps what it found, for the response and for
// all repetitions of it.
func (qp *QP) serveAtomic(operation packet.Operation, h *packet.AtomicETH) packet.Syndrome {
	rs := &qp.resp
	if !qp.allows(verbs.AccessRemoteAtomic) || h.VA()%atomicLen != 0 || !qp.slotFree() {
		return packet.NAKInvalidRequest
	}
	word, mr, syndrome := qp.lockWord(h.VA(), h.RKey(), verbs.AccessRemoteAtomic)
	if syndrome != accepted {
		return syndrome
	}
	defer mr.unlock()
	found := uint64(0)
	if operation == packet.OpFetchAdd {
		found = fetchAdd(word, h.SwapAdd())
	} else {
		found = compareSwap(word, h.Compare(), h.SwapAdd())
	}
	qp.addSlot(slot{operation: operation, first: rs.expected, packets: 1, found: found})
	return accepted
}

// serveAtomicWrite stores an ATOMIC WRITE's eight bytes by one instruction.
func (qp *QP) serveAtomicWrite(h *packet.RETH, payload []byte) packet.Syndrome {
	if !qp.allows(verbs.AccessRemoteWrite) || h.VA()%atomicLen != 0 || h.DMALen() != atomicLen || !qp.slotFree() {
		return packet.NAKInvalidRequest
	}
	word, mr, syndrome := qp.lockWord(h.VA(), h.RKey(), verbs.AccessRemoteWrite)
	if syndrome != accepted {
		return syndrome
	}
	defer mr.unlock()
	store(word, binary.NativeEndian.Uint64(payload))
	qp.addSlot(slot{operation: packet.OpAtomicWrite, first: qp.resp.expected, packets: 1})
	return accepted
}

// lockWord locks the aligned word at va of a region that has the right need.
func (qp *QP) lockWord(va uint64, rkey uint32, need verbs.Access) (*uint64, *MR, packet.Syndrome) {
	mr := qp.remote(rkey)
	if mr == nil {
		return nil, nil, packet.NAKRemoteAccess
	}
	bytes, ok := mr.lock(qp.pd, va, atomicLen, need)
	if !ok {
		return nil, nil, packet.NAKRemoteAccess
	}
	word := (*uint64)(unsafe.Pointer(unsafe.SliceData(bytes)))
	if uintptr(unsafe.Pointer(word))%atomicLen != 0 { // a zero-based region that begins anywhere
		mr.unlock()
		return nil, nil, packet.NAKInvalidRequest
	}
	return word, mr, accepted
}

// flushable reports whether a FLUSH can ask for this.
func flushable(t verbs.FlushType, l verbs.FlushLevel) bool {
	return t != 0 && t&^(verbs.FlushGlobal|verbs.FlushPersistent) == 0 && l <= verbs.FlushMR
}

// serveFlush checks a FLUSH. There is nothing left to flush: requests are served in
// order, and the CPU itself writes, under the region's lock. No region grants
// AccessFlushPersistent, because no memory here survives a loss of power.
func (qp *QP) serveFlush(f *packet.FETH, h *packet.RETH) packet.Syndrome {
	need := verbs.Access(0)
	if f.Type()&verbs.FlushGlobal != 0 {
		need |= verbs.AccessFlushGlobal
	}
	if f.Type()&verbs.FlushPersistent != 0 {
		need |= verbs.AccessFlushPersistent
	}
	if !flushable(f.Type(), f.Level()) || qp.attr.Access&need != need || !qp.slotFree() {
		return packet.NAKInvalidRequest
	}
	mr := qp.remote(h.RKey())
	if mr == nil {
		return packet.NAKRemoteAccess
	}
	va, n := mr.Addr(), 0
	if f.Level() != verbs.FlushMR {
		var fits bool
		if n, fits = messageLength(h); !fits {
			return packet.NAKInvalidRequest
		}
		va = h.VA()
	}
	if !mr.allows(qp.pd, va, n, need) {
		return packet.NAKRemoteAccess
	}
	qp.addSlot(slot{operation: packet.OpFlush, first: qp.resp.expected, packets: 1})
	return accepted
}
