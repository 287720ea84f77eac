// Scatter/gather lists: one stretch of bytes over pieces of several regions.

package transport

import "github.com/rawverbs/rawverbs/verbs"

// sglLength is the bytes of a list.
func sglLength(sgl []verbs.SGE) (n uint64) {
	for i := range sgl {
		n += uint64(sgl[i].Length)
	}
	return n
}

// sglAllowed says whether all of a list is registered memory with the right need.
func (qp *QP) sglAllowed(sgl []verbs.SGE, need verbs.Access) bool {
	for i := range sgl {
		s := &sgl[i]
		if s.Length == 0 {
			continue
		}
		mr := qp.local(s.LKey)
		if mr == nil || !mr.allows(qp.pd, s.Addr, int(s.Length), need) {
			return false
		}
	}
	return true
}

// gather fills dst with the bytes of a list from off on; false if memory of it
// is not there to be read. The list is long enough.
func (qp *QP) gather(dst []byte, sgl []verbs.SGE, off int) bool {
	return qp.eachPiece(qp.pd, sgl, off, len(dst), 0, func(piece []byte, at int) { move(dst[at:], piece) })
}

// scatter writes src into a list of pd's memory from off on; false if memory of it
// may not be written. The list is long enough.
func (qp *QP) scatter(pd *PD, sgl []verbs.SGE, off int, src []byte) bool {
	return qp.eachPiece(pd, sgl, off, len(src), verbs.AccessLocalWrite, func(piece []byte, at int) { move(piece, src[at:]) })
}

// eachPiece hands out the n bytes of a list that begin at off, piece by piece,
// each with its place among the n.
func (qp *QP) eachPiece(pd *PD, sgl []verbs.SGE, off, n int, need verbs.Access, f func(piece []byte, at int)) bool {
	for i, at := 0, 0; at < n && i < len(sgl); i++ {
		s := &sgl[i]
		if off >= int(s.Length) {
			off -= int(s.Length)
			continue
		}
		size := min(int(s.Length)-off, n-at)
		mr := qp.local(s.LKey)
		if mr == nil {
			return false
		}
		piece, ok := mr.lock(pd, s.Addr+uint64(off), size, need)
		if !ok {
			return false
		}
		f(piece, at)
		mr.unlock()
		at, off = at+size, 0
	}
	return true
}
