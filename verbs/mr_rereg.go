// Changing an open memory region: its memory, its domain or its access flags.

package verbs

import (
	"net"
	"syscall"
)

// ReregFlags say which properties of a region change (enum ibv_rereg_mr_flags).
type ReregFlags uint32

// The properties that can change.
const (
	ReregTranslation ReregFlags = 1 << 0 // the memory
	ReregPD          ReregFlags = 1 << 1 // the protection domain
	ReregAccess      ReregFlags = 1 << 2 // the access flags
)

// String lists the flags by their C names. No flags give "0".
func (f ReregFlags) String() string {
	return cFlags("IBV_REREG_MR_CHANGE_", uint32(f), "TRANSLATION", "PD", "ACCESS")
}

// Rereg describes a change of a region, for [MR.Rereg]. Fields that Flags does not name are ignored.
// The zero value changes nothing and is EINVAL.
type Rereg struct {
	Flags  ReregFlags // which of the other fields count; at least one
	PD     *PD        // with ReregPD: the new domain, of the same device
	Buf    []byte     // with ReregTranslation: the new memory, pinned until Close or the next change, as with [PD.RegMR]
	Access Access     // with ReregAccess: the new access flags
}

// Rereg changes the memory, the domain or the access flags of the region. The keys may change too.
// Rereg unpins the old memory. During the call no work request and no peer may use the region, and
// no other goroutine may use it or call its methods. After an error the region is unchanged, unless
// the error says that the region is lost. A lost region can only be closed.
//
// EINVAL for flags without their fields, a PD of another device, or an illegal set of access flags;
// EBUSY while windows are bound to the region; errors.ErrUnsupported if the device cannot make this
// change. No device changes the region of a DMA-BUF. libibverbs cannot change the memory of a region
// with chosen addresses ([IOVA], [AccessZeroBased]).
//
// Implements: int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
func (mr *MR) Rereg(r Rereg) error {
	err := mr.rereg(r)
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	return mr.fail("ibv_rereg_mr", r.Flags.String(), err)
}

func (mr *MR) rereg(r Rereg) error {
	mr.mu.Lock()
	defer mr.mu.Unlock()
	if mr.closed || mr.gone {
		return net.ErrClosed
	}
	p, err := optional[ProviderRereg](mr.p)
	if err != nil {
		return err
	}
	moves, joins := r.Flags&ReregTranslation != 0, r.Flags&ReregPD != 0
	const all = ReregTranslation | ReregPD | ReregAccess
	if r.Flags == 0 || r.Flags&^all != 0 || moves && len(r.Buf) == 0 || joins && r.PD == nil {
		return syscall.EINVAL
	}
	if joins && r.PD.dev != mr.pd.dev {
		return otherDevice("ibv_rereg_mr", mr.device, "the PD is of "+r.PD.device)
	}
	next := &MR{pd: mr.pd, buf: mr.buf, addr: mr.addr, access: mr.access, free: mr.free}
	if r.Flags&ReregAccess != 0 {
		next.access = r.Access
	}
	if joins {
		next.pd = r.PD
		if err := r.PD.adopt(mr.kind); err != nil {
			return err
		}
	}
	if moves {
		next.buf = r.Buf[:len(r.Buf):len(r.Buf)]
		next.addr, next.free = iovaOf(next.buf, next.access, mr.iova), []func() error{pin(r.Buf)}
	}
	lost, err := p.Rereg(r.Flags, next.pd.p, next.buf, next.addr, next.access)
	if lost {
		return mr.lose(r.Flags, next, err)
	}
	given := mr // the region whose domain and memory are released: the old one, or after an error the new one
	if err != nil {
		given = next
	}
	leaves, free := given.pd, given.free
	if err == nil {
		mr.pd, mr.buf, mr.addr, mr.length, mr.access, mr.free = next.pd, next.buf, next.addr, len(next.buf), next.access, next.free
		mr.parents = []*handle{&next.pd.handle}
	}
	if joins {
		releaseAll([]*handle{&leaves.handle}, mr.kind)
	}
	if moves {
		for _, f := range free {
			if f() != nil {
				mr.free = append(mr.free, f) // Close tries again and reports the error
			}
		}
	}
	return err
}

// lose marks a region as lost. The device may use the old memory or the new memory, so both stay
// pinned until Close.
func (mr *MR) lose(flags ReregFlags, next *MR, err error) error {
	if flags&ReregPD != 0 {
		mr.parents = []*handle{&mr.pd.handle, &next.pd.handle}
	}
	if flags&ReregTranslation != 0 {
		mr.free = append(mr.free, next.free...)
	}
	e := fail("ibv_rereg_mr", mr.device, flags.String(), err).(*Error)
	e.Hint = "close the region, which is lost, and register its memory again"
	return e
}
