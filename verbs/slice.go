// Parts of memory regions that are checked before requests are posted.

package verbs

import (
	"math"

	"github.com/pkg/errors"
)

// MRSlice names Len bytes of a region, starting at offset Off. [MR.Slice] makes one. The zero value
// has no bytes and no region; its SGE method returns an error.
type MRSlice struct {
	MR       *MR // the region
	Off, Len int // in bytes
}

// Slice names n bytes of the region, starting at offset off. Slice does not check the range; see
// [MRSlice.SGE].
func (mr *MR) Slice(off, n int) MRSlice { return MRSlice{mr, off, n} }

// SGE returns an element for the bytes. The error says that the bytes are not all within the region,
// or that Len needs more than 32 bits. [MR.SGE] panics instead.
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
