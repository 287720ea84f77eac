// Parts of memory regions, for requests that are checked before they are posted.

package verbs

import (
	"math"

	"github.com/pkg/errors"
)

// MRSlice names Len bytes of a region, from its byte Off on. [MR.Slice] makes one. The zero
// value is no bytes.
type MRSlice struct {
	MR       *MR // the region
	Off, Len int // bytes
}

// Slice names n bytes of the region, from its byte off on. Slice does not check them: see
// [MRSlice.SGE].
func (mr *MR) Slice(off, n int) MRSlice { return MRSlice{mr, off, n} }

// SGE returns the bytes as an element of a list. The error is for bytes that are not all within
// the region, or more than 32 bits can count; [MR.SGE] panics then.
func (s MRSlice) SGE() (SGE, error) {
	switch {
	case s.MR == nil:
		return SGE{}, errors.Errorf("%d bytes at offset %d of no region; try: MR.Slice of a region", s.Len, s.Off)
	case s.Off < 0 || s.Len < 0 || s.Off > s.MR.length || s.Len > s.MR.length-s.Off:
		return SGE{}, errors.Errorf("%d bytes at offset %d are not within the local region of %d bytes (%v); try: fewer bytes, or a larger region", s.Len, s.Off, s.MR.length, s.MR)
	case uint64(s.Len) > math.MaxUint32:
		return SGE{}, errors.Errorf("%d bytes at offset %d are more than one element can name; try: at most %d", s.Len, s.Off, uint32(math.MaxUint32))
	}
	return SGE{Addr: s.MR.addr + uint64(s.Off), Length: uint32(s.Len), LKey: s.MR.LKey()}, nil
}
