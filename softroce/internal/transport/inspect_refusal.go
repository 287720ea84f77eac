// The check that a request fails, in words. The responder itself needs only the syndrome of its NAK.
// Nothing on the way of a packet calls this file.

package transport

import (
	"fmt"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// NoRegion begins what FailedCheck returns for a key that no region and no bound window has.
const NoRegion = "no region or bound window has rkey"

// FailedCheck returns the first check of the responder that a request to peer memory fails, as for
// example "ACCESS_FLAGS lack REMOTE_WRITE". It returns "" if the request fails none, for SENDs, and for words that are
// not aligned. A region is named by its key: "the region of rkey 0x1234".
func (qp *QP) FailedCheck(p packet.Packet) string {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	var need verbs.Access
	var va uint64
	var rkey uint32
	n, whole := atomicLen, false
	switch p.Opcode().Operation() {
	case packet.OpWrite, packet.OpAtomicWrite:
		need = verbs.AccessRemoteWrite
	case packet.OpReadRequest:
		need = verbs.AccessRemoteRead
	case packet.OpCompareSwap, packet.OpFetchAdd:
		need = verbs.AccessRemoteAtomic
	case packet.OpFlush:
		f := p.FETH()
		if !flushable(f.Type(), f.Level()) {
			return "FLUSH has no such type or level"
		}
		need = flushRights(f.Type())
		whole = f.Level() == verbs.FlushMR
	default:
		return ""
	}
	switch {
	case p.RETH() != nil:
		va, rkey, n = p.RETH().VA(), p.RETH().RKey(), int(p.RETH().DMALen())
	case p.AtomicETH() != nil:
		va, rkey = p.AtomicETH().VA(), p.AtomicETH().RKey()
	default:
		return "" // a later packet of a WRITE
	}
	switch {
	case qp.attr.Access&need != need:
		return "ACCESS_FLAGS lack " + (need &^ qp.attr.Access).Name()
	case p.Opcode().Operation() != packet.OpWrite && !qp.slotFree():
		return fmt.Sprintf("MAX_DEST_RD_ATOMIC is %d", qp.attr.MaxDestRdAtomic)
	case n == 0 && p.FETH() == nil:
		return ""
	}
	mr := qp.engine.keys.find(rkey)
	if mr == nil || mr.window != nil && !mr.window.serves(qp) {
		return fmt.Sprintf("%s %#x", NoRegion, rkey)
	}
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	if whole {
		va, n = mr.base, 0
	}
	region := fmt.Sprintf("the region of rkey %#x", rkey)
	switch off, size := va-mr.base, uint64(len(mr.buf)); {
	case mr.pd != qp.pd:
		return region + " is in another PD"
	case mr.access&need != need:
		return region + " lacks " + (need &^ mr.access).Name()
	case off > size || uint64(n) > size-off:
		return "outside of " + region
	}
	return ""
}
