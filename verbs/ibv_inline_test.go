//go:build linux && cgo && !nolibibverbs

// Tests that C gets no inline data with an address that is not a pointer.

package verbs

import (
	"syscall"
	"testing"

	"github.com/pkg/errors"
)

func TestInlineFromARemappedRegionIsRefused(t *testing.T) {
	bothPaths(t, func(t *testing.T, path PostPath) {
		f, qp := fakeQPBy(t, path, wide)
		mr := newIBVMR(fakeDomain.d, f.MR())
		there := []SGE{{Addr: 0x10, Length: 8, LKey: mr.LKey()}}
		inline := []SendWR{{Opcode: OpSend}, {Opcode: OpSend, Flags: SendInline, SGL: append([]SGE{{Addr: 0x20, Length: 1, LKey: 1}}, there...)}}
		if err := qp.PostSend(inline); err != nil {
			t.Errorf("from memory under its own addresses: %v", err)
		}
		mr.remap(qp.p.(*ibvQP).send.remapped)
		var pe *PostError
		if err := qp.PostSend(inline); !errors.As(err, &pe) || pe.Index != 1 || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("from a remapped region: %v", err)
		}
		if err := qp.PostSend([]SendWR{{Opcode: OpSend, SGL: there}, {Opcode: OpLocalInv, Flags: SendInline, SGL: there},
			{Opcode: OpSend, Flags: SendInline, SGL: inline[1].SGL[:1]}}); err != nil {
			t.Errorf("what is not inline, or not of the region: %v", err)
		}
		mr.lkey.Store(1)
		mr.rekeyed(there[0].LKey)
		if err := qp.PostSend([]SendWR{{Opcode: OpSend, Flags: SendInline, SGL: there}}); err != nil {
			t.Errorf("by the key that it had: %v", err)
		}
		if err := qp.PostSend(inline); !errors.As(err, &pe) || pe.Index != 1 {
			t.Errorf("by the key that it has now: %v", err)
		}
		mr.among.remove(mr.LKey())
		if err := qp.PostSend(inline); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}
