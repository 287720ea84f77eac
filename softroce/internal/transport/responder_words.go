// The responder's atomics, ATOMIC WRITE and FLUSH. Their responses carry no data of a region,
// so they are executed when the request arrives.

package transport

import (
	"encoding/binary"
	"unsafe"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// serveAtomic executes an atomic. It keeps the old value for the response and for repeated
// responses.
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
	touched := touch(func() {
		if operation == packet.OpFetchAdd {
			found = fetchAdd(word, h.SwapAdd())
		} else {
			found = compareSwap(word, h.Compare(), h.SwapAdd())
		}
	})
	if !touched {
		return packet.NAKRemoteAccess
	}
	qp.addSlot(slot{operation: operation, first: rs.expected, packets: 1, found: found})
	return accepted
}

// serveAtomicWrite stores the eight bytes of an ATOMIC WRITE with one instruction.
func (qp *QP) serveAtomicWrite(h *packet.RETH, payload []byte) packet.Syndrome {
	if !qp.allows(verbs.AccessRemoteWrite) || h.VA()%atomicLen != 0 || h.DMALen() != atomicLen || !qp.slotFree() {
		return packet.NAKInvalidRequest
	}
	word, mr, syndrome := qp.lockWord(h.VA(), h.RKey(), verbs.AccessRemoteWrite)
	if syndrome != accepted {
		return syndrome
	}
	defer mr.unlock()
	if !touch(func() { store(word, binary.NativeEndian.Uint64(payload)) }) {
		return packet.NAKRemoteAccess
	}
	qp.addSlot(slot{operation: packet.OpAtomicWrite, first: qp.resp.expected, packets: 1})
	return accepted
}

// lockWord locks the region of rkey, which must allow need, and returns the aligned word at va.
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
	if uintptr(unsafe.Pointer(word))%atomicLen != 0 { // a zero-based region may begin anywhere
		mr.unlock()
		return nil, nil, packet.NAKInvalidRequest
	}
	return word, mr, accepted
}

// flushable reports whether the type and the level of a FLUSH are valid.
func flushable(t verbs.FlushType, l verbs.FlushLevel) bool {
	return t != 0 && t&^(verbs.FlushGlobal|verbs.FlushPersistent) == 0 && l <= verbs.FlushMR
}

// flushRights returns the rights that a FLUSH of a type needs.
func flushRights(t verbs.FlushType) (need verbs.Access) {
	if t&verbs.FlushGlobal != 0 {
		need |= verbs.AccessFlushGlobal
	}
	if t&verbs.FlushPersistent != 0 {
		need |= verbs.AccessFlushPersistent
	}
	return need
}

// serveFlush checks a FLUSH. Nothing needs to be flushed: requests are served in order, and the
// CPU writes the data under the region's lock. No region grants AccessFlushPersistent, because
// this memory does not survive a loss of power.
func (qp *QP) serveFlush(f *packet.FETH, h *packet.RETH) packet.Syndrome {
	need := flushRights(f.Type())
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
