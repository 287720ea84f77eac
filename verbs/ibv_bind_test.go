//go:build linux && cgo && !nolibibverbs

// Tests of binds, and of other differences of the ibv_wr_* calls.

package verbs

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs/internal/ibvfake"
)

// fakeWindow is a window of type 2 and a region, over a fake's C objects.
func fakeWindow(f *ibvfake.Fake) (*MW, *MR) {
	return &MW{p: newIBVMW(fakeDomain.d, f.MW()), kind: MWType2}, &MR{p: newIBVMR(fakeDomain.d, f.MR()), addr: 0x5000, length: 4096}
}

// fakeBind is a queue pair and a chain that binds a window.
func fakeBind(tb testing.TB) (*QP, []SendWR) {
	f, qp := fakeQP(tb, wide)
	mw, mr := fakeWindow(f)
	return qp, []SendWR{{ID: 3, Opcode: OpBindMW, Bind: &MWBind{MW: mw, MR: mr, RKey: 0x7ab, Addr: 0x5100, Length: 64, Access: AccessRemoteRead}}}
}

func TestBindIsEncoded(t *testing.T) {
	bothPaths(t, func(t *testing.T, path PostPath) {
		f, qp := fakeQPBy(t, path, wide)
		mw, mr := fakeWindow(f)
		wr := SendWR{ID: 3, Opcode: OpBindMW, SGL: []SGE{{Addr: 1, Length: 2}}, // the SGL is ignored
			Bind: &MWBind{MW: mw, MR: mr, RKey: 0x7ab, Addr: 0x5100, Length: 64, Access: AccessRemoteRead}}
		if err := qp.PostSend([]SendWR{{ID: 2, Opcode: OpSend}, wr, {ID: 4, Opcode: OpSend}}); err != nil {
			t.Fatal(err)
		}
		want := ibvfake.Bound{MW: f.MW(), MR: f.MR(), RKey: 0x7ab, Addr: 0x5100, Length: 64, Access: uint32(AccessRemoteRead)}
		if got := f.Bind(1); got != want {
			t.Errorf("C saw %+v\nwant  %+v", got, want)
		}
		if got := f.Send(1); got.Opcode != 8 || got.NumSGE != 0 || got.ID != 3 {
			t.Errorf("C saw %+v", got)
		}
		if f.Calls() != 1 || mw.RKey() != 0x7ab || newIBVMW(fakeDomain.d, f.MW()).RKey() != 0x7ab {
			t.Errorf("%d calls, and the keys are %#x and %#x", f.Calls(), mw.RKey(), newIBVMW(fakeDomain.d, f.MW()).RKey())
		}
	})
}

// TestBindTwiceInAChain: C reads the window's present key from its struct, so the second bind needs
// a call of its own.
func TestBindTwiceInAChain(t *testing.T) {
	f, qp := fakeQP(t, wide)
	mw, mr := fakeWindow(f)
	bind := func(key uint32) SendWR {
		return SendWR{Opcode: OpBindMW, Bind: &MWBind{MW: mw, MR: mr, RKey: key, Addr: 0x5000, Length: 1}}
	}
	if err := qp.PostSend([]SendWR{bind(0x701), {Opcode: OpLocalInv, InvalidateRKey: 0x701}, bind(0x702), {Opcode: OpSend}}); err != nil {
		t.Fatal(err)
	}
	if f.Calls() != 2 || f.WRs() != 4 || mw.RKey() != 0x702 {
		t.Errorf("%d calls, %d requests, key %#x", f.Calls(), f.WRs(), mw.RKey())
	}
}

// TestRefusedBindKeepsTheKey checks that a refused bind, and the requests after it, do not change the
// key and hold no object.
func TestRefusedBindKeepsTheKey(t *testing.T) {
	bothPaths(t, func(t *testing.T, path PostPath) {
		f, qp := fakeQPBy(t, path, wide)
		mw, mr := fakeWindow(f)
		bind := &MWBind{MW: mw, MR: mr, RKey: 0x701, Addr: 0x5000, Length: 1}
		f.Refuse(1, syscall.ENOMEM)
		index := 1
		if path == PostWRAPI {
			index = 0 // the chain is refused as a whole
		}
		var pe *PostError
		err := qp.PostSend([]SendWR{{Opcode: OpSend}, {Opcode: OpBindMW, Bind: bind}})
		if !errors.As(err, &pe) || pe.Index != index || !errors.Is(err, syscall.ENOMEM) || mw.RKey() != 0x700 {
			t.Errorf("%v, key %#x", err, mw.RKey())
		}
		for i, wrong := range []*MWBind{nil, {}, {MW: mw}, {MR: mr}, {MW: mw, MR: mr, RKey: 0x801},
			{MW: &MW{p: mw.p, kind: MWType1}, MR: mr, RKey: 0x701}, {MW: &MW{p: &paperMR{key: 0x700}, kind: MWType2}, MR: mr, RKey: 0x701},
			{MW: mw, MR: &MR{p: &paperMR{}}, RKey: 0x701}} {
			if err := qp.PostSend([]SendWR{{Opcode: OpBindMW, Bind: wrong}}); !errors.As(err, &pe) || pe.Index != 0 || !errors.Is(err, syscall.EINVAL) {
				t.Errorf("bind %d: %v", i, err)
			}
		}
		closes(t, &mw.p.(*ibvMW).posted)
		closes(t, &mr.p.(*ibvMR).posted)
		if err := qp.PostSend([]SendWR{{Opcode: OpBindMW, Bind: bind}}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("after the window's end: %v", err)
		}
	})
}

// closes fails the test unless nothing holds an object.
func closes(t *testing.T, p *posted) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.end(func() error { return nil })
	}()
	testkit.Receive(t, done, "end of a posted object")
}

// TestPostedEndsOnce checks that end waits for all holds, and that nobody can hold the object after
// it.
func TestPostedEndsOnce(t *testing.T) {
	var p posted
	var gone bool // read while the object is held, written when it is not, so the race detector can see a mistake
	var over atomic.Bool
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for !over.Load() {
				if p.hold() {
					if gone {
						t.Error("held after its end")
					}
					p.release()
				}
			}
		})
	}
	if err := p.end(func() error { return syscall.EBUSY }); err != syscall.EBUSY || !p.hold() {
		t.Errorf("after an end that failed: %v", err)
	}
	p.release()
	_ = p.end(func() error { gone = true; return nil })
	over.Store(true)
	all.Wait()
	if err := p.end(func() error { return nil }); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a second end: %v", err)
	}
}

func TestBuilderHasDataInline(t *testing.T) {
	f, qp := fakeQPBy(t, PostWRAPI, wide)
	sgl := []SGE{{Addr: 0x10, Length: 1}, {Addr: 0x20, Length: 2}}
	err := qp.PostSend([]SendWR{
		{Opcode: OpSend, Flags: SendInline | SendSignaled, SGL: sgl[:1]},
		{Opcode: OpRDMAWrite, Flags: SendInline, SGL: sgl},
		{Opcode: OpRDMAWrite, SGL: sgl},
		{Opcode: OpSend, Flags: SendInline},
	})
	if err != nil || f.Inlined() != 3 {
		t.Errorf("%v, %d inline", err, f.Inlined())
	}
	if got := f.Send(0); got.Flags != uint32(SendInline|SendSignaled) || got.Addr != 0x10 || got.Length != 1 {
		t.Errorf("C saw %+v", got)
	}
	if got := f.Send(1); got.NumSGE != 2 || got.Addr != 0x10 {
		t.Errorf("C saw %+v", got)
	}
}
