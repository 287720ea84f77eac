// Memory windows: keys for parts of a region. The region's owner grants and revokes them without
// registering memory again.

package verbs

import (
	"fmt"
	"sync"
	"syscall"
)

// MWType is the kind of a memory window (enum ibv_mw_type).
type MWType uint32

// The types of memory windows.
const (
	// MWType1 windows are bound with [QP.BindMW], which chooses the key. Every queue pair of the
	// window's domain can use them. Binding the window again, or to 0 bytes, revokes the old key.
	MWType1 MWType = 1
	// MWType2 windows are bound with a work request, [OpBindMW], which sets the key. The peer can
	// use the window only through the queue pair on which it was bound: the device checks that
	// queue pair's number and, with type 2B, also the domain. If this side or the peer invalidates
	// the key, the window can be bound again.
	MWType2 MWType = 2
)

// String returns the C name: "IBV_MW_TYPE_1".
func (t MWType) String() string {
	return cName("IBV_MW_", "ibv_mw_type", uint32(t), "", "TYPE_1", "TYPE_2")
}

// MW is a memory window (struct ibv_mw): a key for a part of a region, which can be granted and
// revoked without registering memory again. [PD.AllocMW] makes a window; [QP.BindMW] or an
// [OpBindMW] binds it; it is valid until Close.
//
// All methods of an MW may be called at the same time by several goroutines, Close included. RKey,
// Type and String are valid after Close. The caller must order the binds of one window on different
// queue pairs: a bind fails if the device executes it before an earlier bind.
type MW struct {
	handle
	p    ProviderMW
	kind MWType

	binding sync.Mutex // type 1: each bind replaces the key of the bind before, on whichever queue pair
}

// AllocMW makes a memory window. It grants nothing until it is bound to a region. EINVAL for an
// unknown type; errors.ErrUnsupported if the device has no such windows: [DeviceAttr.CapFlags] lists
// its types. The domain cannot be closed before the window is.
//
// Implements: struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
func (pd *PD) AllocMW(t MWType) (*MW, error) {
	mw := &MW{kind: t}
	return makeObject(mw, &mw.handle, &mw.p, "MW", "ibv_alloc_mw", t.String(), func() (ProviderMW, error) { return pd.p.AllocMW(t) }, &pd.handle)
}

// Type returns the window's type.
func (mw *MW) Type() MWType { return mw.kind }

// RKey returns the window's key: the key of the last posted bind. The upper 24 bits belong to the
// window, and the lower 8 bits change with each bind. If that bind failed, nobody can use the key:
// close the window.
func (mw *MW) RKey() uint32 { return mw.p.RKey() }

// String returns type and key.
func (mw *MW) String() string { return fmt.Sprintf("%v rkey %#x", mw.kind, mw.RKey()) }

// Close frees the window, bound or not, and so revokes its key. Posted work requests that name the
// window must have completed. Closing again does nothing.
//
// Implements: int ibv_dealloc_mw(struct ibv_mw *mw)
func (mw *MW) Close() error {
	if mw == nil || mw.p == nil {
		return nil
	}
	return mw.close("ibv_dealloc_mw", mw.p.Close)
}

// MWBind describes the bind of a window: the part of the region, and the peer's rights (struct
// ibv_mw_bind_info, with the window and its key). The post reads the fields and does not keep them.
// A bind without a window or without a region is EINVAL.
type MWBind struct {
	// MW is the window: of type 1 for [QP.BindMW], of type 2 for [OpBindMW].
	MW *MW
	// MR is the region. It must be of the window's domain and have [AccessMWBind]. It must be set
	// even for 0 bytes. It cannot be closed while the window is bound to it.
	MR *MR
	// RKey is the window's next key, for type 2 only: [IncRKey] of the present key, or another key
	// with the same upper 24 bits.
	RKey   uint32
	Addr   uint64 // address of the first byte, within the region, as in [MR.Addr]
	Length uint64 // bytes; 0 unbinds a window of type 1 and is an error for type 2
	// Access has only remote rights, and for windows of type 2 also [AccessZeroBased], which makes
	// the peer's addresses count from 0. Rights to write need [AccessLocalWrite] of the region. 0
	// grants nothing.
	Access Access
}

// IncRKey returns the key after rkey: it increments the lower 8 bits.
//
// Implements: uint32_t ibv_inc_rkey(uint32_t rkey)
func IncRKey(rkey uint32) uint32 { return rkey&^0xff | (rkey+1)&0xff }

// BindMW posts the bind of a type 1 window to the send queue and gives the window a new key,
// [MW.RKey]. The peer may use the key after the bind has completed. Only the flags [SendSignaled]
// and [SendFence] count. The completion has the opcode [WCBindMW] and the id.
//
// EINVAL for a window of type 2, a missing region, or a queue pair in RESET, INIT or RTR; EPERM for
// a region of another domain. The device checks the rest when it executes the bind. A region
// without [AccessMWBind], or bytes outside the region, give a completion with [WCMWBindErr] and
// move the queue pair to ERR. A bind fails in the same way if the window's key has changed since
// the post. So wait for the bind's completion before you bind the window on another queue pair.
//
// Implements: int ibv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
func (qp *QP) BindMW(id uint64, flags SendFlags, b MWBind) error {
	err := b.check(MWType1)
	if err == nil {
		b.MW.binding.Lock()
		err = qp.p.BindMW(id, flags, &b)
		b.MW.binding.Unlock()
	}
	if err == nil {
		return nil
	}
	return qp.fail("ibv_bind_mw", b.String(), err)
}

// Check returns EINVAL for a bind that an [OpBindMW] cannot express and that must not reach C. The
// device checks the rest. For providers.
func (b *MWBind) Check() error {
	if err := b.check(MWType2); err != nil {
		return err
	}
	if b.RKey>>8 != b.MW.RKey()>>8 {
		return syscall.EINVAL // a device would silently use only the lower bits
	}
	return nil
}

func (b *MWBind) check(want MWType) error {
	if b == nil || b.MW == nil || b.MR == nil || b.MW.kind != want {
		return syscall.EINVAL
	}
	return nil
}

// String returns window, region, bytes and rights.
func (b MWBind) String() string {
	mw, mr := "no window", "no region"
	if b.MW != nil {
		mw = b.MW.String()
	}
	if b.MR != nil {
		mr = b.MR.String()
	}
	return fmt.Sprintf("%s to addr %#x len %d %s of %s", mw, b.Addr, b.Length, b.Access.Name(), mr)
}
