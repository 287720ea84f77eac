// Scatter/gather lists: a message in pieces of several regions.
//
// Each piece is copied while its region is locked for reading, so Close of a region waits for
// the copy.

package transport

import "github.com/rawverbs/rawverbs/verbs"

// sglLength returns the number of bytes of a list.
func sglLength(sgl []verbs.SGE) (n uint64) {
	for i := range sgl {
		n += uint64(sgl[i].Length)
	}
	return n
}

// sglAllowed returns whether all of a list is registered memory with the access need.
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

// gather copies the bytes of a list, from off on, to dst. It returns false if some of them are
// not readable registered memory. The list must be long enough.
func (qp *QP) gather(dst []byte, sgl []verbs.SGE, off int) bool {
	return qp.eachPiece(qp.pd, sgl, off, len(dst), 0, func(piece []byte, at int) { move(dst[at:], piece) })
}

// scatter copies src to a list of pd's memory, from off on. It returns false if some of it is
// not writable registered memory. The list must be long enough.
func (qp *QP) scatter(pd *PD, sgl []verbs.SGE, off int, src []byte) bool {
	return qp.eachPiece(pd, sgl, off, len(src), verbs.AccessLocalWrite, func(piece []byte, at int) { move(piece, src[at:]) })
}

// eachPiece calls f for each piece of the n bytes that begin at off of a list. at is the
// position of the piece within the n bytes.
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
		if mr.null && need == 0 {
			piece = zeros[:size]
		}
		touched := touch(func() { f(piece, at) })
		mr.unlock()
		if !touched {
			return false
		}
		at, off = at+size, 0
	}
	return true
}
