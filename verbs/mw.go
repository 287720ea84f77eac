// Memory windows: a key to a part of a region, which its owner hands out and
// takes back without registering memory anew.

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
	// MWType1 windows are bound by [QP.BindMW], which chooses their key, and serve
	// every queue pair of their domain. Binding one anew, or to 0 bytes, takes the
	// old key back.
	MWType1 MWType = 1
	// MWType2 windows are bound by a work request, [OpBindMW], under a key of the
	// program's choice, and serve the queue pair that they were bound on: its number
	// guards them, on a device of type 2B the domain too. An invalidation of the key,
	// by this side or by the peer, frees them for the next bind.
	MWType2 MWType = 2
)

// String is the C name: "IBV_MW_TYPE_1".
func (t MWType) String() string {
	return cName("IBV_MW_", "ibv_mw_type", uint32(t), "", "TYPE_1", "TYPE_2")
}

// MW is a memory window (struct ibv_mw): a key to a part of a region, which is handed
// out and taken back without registering memory anew. [PD.AllocMW] makes it; [QP.BindMW]
// or an [OpBindMW] opens it; it is valid until Close.
//
// Its methods may be called by several goroutines at once. RKey, Type and String
// answer after Close too. Binds of one window on two queue pairs are for the program to
// order: one whose turn comes before that of a bind posted earlier fails.
type MW struct {
	handle
	p    ProviderMW
	kind MWType

	binding sync.Mutex // type 1: a bind goes from the last one's key to the next, whichever queue pair takes it
}

// AllocMW makes a memory window, which opens nothing until it is bound to a
// region. EINVAL for a type that does not exist; errors.ErrUnsupported if the
// device has no windows: [DeviceAttr.CapFlags] says which it has. The domain cannot be
// closed before the window.
//
// Implements: struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
func (pd *PD) AllocMW(t MWType) (*MW, error) {
	mw := &MW{kind: t}
	p, err := makeObject(&mw.handle, "MW", "ibv_alloc_mw", t.String(), func() (ProviderMW, error) { return pd.p.AllocMW(t) }, &pd.handle)
	if err != nil {
		return nil, err
	}
	mw.p = p
	return mw, nil
}

// Type is the window's type.
func (mw *MW) Type() MWType { return mw.kind }

// RKey is the window's key: that of the last bind that was posted. Its upper 24
// bits are the window's own, the lower 8 change from bind to bind. After a bind
// that failed the key is nobody's: close the window.
func (mw *MW) RKey() uint32 { return mw.p.RKey() }

// Provider is the provider's side of the window. For providers.
func (mw *MW) Provider() ProviderMW { return mw.p }

// String prints type and key.
func (mw *MW) String() string { return fmt.Sprintf("%v rkey %#x", mw.kind, mw.RKey()) }

// Close frees the window, bound or not: its key opens nothing any more. Posted
// work requests that name it must have completed. Closing again does nothing.
//
// Implements: int ibv_dealloc_mw(struct ibv_mw *mw)
func (mw *MW) Close() error { return mw.close("ibv_dealloc_mw", mw.p.Close) }

// MWBind says what part of which region a window opens, and for what (struct
// ibv_mw_bind_info, with the window and its key). Fields are read when the bind is
// posted, and not kept. Without a window and a region it is EINVAL.
type MWBind struct {
	// MW is the window: of type 1 for [QP.BindMW], of type 2 for [OpBindMW].
	MW *MW
	// MR is the region, of the window's domain and with [AccessMWBind]; it cannot be
	// closed while the window is bound to it. It is not nil even for 0 bytes.
	MR *MR
	// RKey is the window's next key, type 2 only: [IncRKey] of the present one, or
	// another with the same upper 24 bits.
	RKey   uint32
	Addr   uint64 // of the first byte: within the region, as [MR.Addr] counts
	Length uint64 // bytes; 0 unbinds a window of type 1, and is an error for type 2
	// Access is remote rights only, and [AccessZeroBased] for a type 2 window whose
	// peer counts from 0. To be written the region needs [AccessLocalWrite]. 0 opens the
	// window for nothing.
	Access Access
}

// IncRKey is the key after rkey: the next value of its lower 8 bits.
//
// Implements: uint32_t ibv_inc_rkey(uint32_t rkey)
func IncRKey(rkey uint32) uint32 { return rkey&^0xff | (rkey+1)&0xff }

// BindMW posts the bind of a type 1 window to the send queue and gives the window
// a new key, [MW.RKey], which is the peer's to use once the bind has completed.
// Among the flags [SendSignaled] and [SendFence] count; the completion is a
// [WCBindMW] with the id. EINVAL for a window of type 2, a region that is missing,
// or a queue pair below RTS; EPERM for a region of another domain. What the device
// finds wrong when the bind's turn comes, such as a region without [AccessMWBind]
// or bytes outside it, is a completion with [WCMWBindErr], and ends the queue pair. So
// does a bind whose turn comes when the window has another key than when it was
// posted: before binding on another queue pair, wait for the bind's completion.
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

// Check refuses, with EINVAL, a bind that must not come near C: one that an
// [OpBindMW] cannot be made of. What else may be wrong with it is for the device to
// find. For providers.
func (b *MWBind) Check() error {
	if err := b.check(MWType2); err != nil {
		return err
	}
	if b.RKey>>8 != b.MW.RKey()>>8 {
		return syscall.EINVAL // a device would take the lower bits in silence
	}
	return nil
}

func (b *MWBind) check(want MWType) error {
	if b == nil || b.MW == nil || b.MR == nil || b.MW.kind != want {
		return syscall.EINVAL
	}
	return nil
}

// String prints window, region, bytes and rights.
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
