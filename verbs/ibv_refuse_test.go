//go:build linux && cgo && !nolibibverbs

// Tests of refused posts, by this package or by C.

package verbs

import (
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs/internal/ibvfake"
)

func TestPostSaysWhichRequestWasRefused(t *testing.T) {
	f, qp := fakeQP(t, wide)
	f.Refuse(3, syscall.ENOMEM)
	posts := map[string]func() error{
		"ibv_post_send": func() error { return qp.PostSend(sendBatch(10)) },
		"ibv_post_recv": func() error { return qp.PostRecv(make([]RecvWR, 10)) },
	}
	for op, post := range posts {
		var pe *PostError
		if err := post(); !errors.As(err, &pe) || pe.Index != 3 || pe.Op != op || !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("%s: %v", op, err)
		}
	}
	f.Refuse(-2, syscall.EINVAL)
	var nowhere *PostError
	if err := qp.PostSend(sendBatch(10)); !errors.As(err, &nowhere) || nowhere.Index != 0 {
		t.Errorf("refused without a place: %v", err)
	}
	f.Refuse(-1, 0)
	f2, qp2 := fakeQP(t, wide)
	_ = f2
	var pe *PostError
	tooMany := SendWR{Opcode: OpSend, SGL: make([]SGE, 3)}
	if err := qp2.PostSend([]SendWR{{ID: 1, Opcode: OpSend}, tooMany, {ID: 3, Opcode: OpSend}}); !errors.As(err, &pe) || pe.Index != 1 || f2.WRs() != 1 {
		t.Errorf("too many SGEs in the middle: %v, %d posted", err, f2.WRs())
	}
	if err := qp2.PostRecv([]RecvWR{{SGL: make([]SGE, 3)}}); !errors.As(err, &pe) || pe.Index != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("too many SGEs in a receive: %v", err)
	}
	if err := qp2.PostSend(sendBatch(5)); err != nil || f2.WRs() != 6 {
		t.Errorf("after a refusal: %v, %d posted", err, f2.WRs())
	}
}

// TestPostSendPassesOnNothingThatCWouldFollow posts requests in which C would follow an invalid
// pointer.
func TestPostSendPassesOnNothingThatCWouldFollow(t *testing.T) {
	foreign := &AH{p: &paperObject{}}
	ended := &ibvAH{}
	if err := ended.end(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	closed := &AH{p: ended}
	elsewhere := &AH{p: &ibvAH{pd: new(ibvPD)}}
	otherMW := &MW{p: &ibvMW{d: new(ibvDevice)}, kind: MWType2}
	otherMR := &MR{p: &ibvMR{d: new(ibvDevice)}}
	window, region := fakeWindow(fakeOf(t))
	for name, c := range map[string]struct {
		datagrams bool
		wr        SendWR
	}{
		"UD: no AH":                     {true, SendWR{Opcode: OpSend}},
		"UD: an AH of another provider": {true, SendWR{Opcode: OpSend, AH: foreign}},
		"UD: a closed AH":               {true, SendWR{Opcode: OpSendWithImm, AH: closed}},
		"UD: an AH of another domain":   {true, SendWR{Opcode: OpSend, AH: elsewhere}},
		"RC: another device's window":   {false, SendWR{Opcode: OpBindMW, Bind: &MWBind{MW: otherMW, MR: region}}},
		"RC: another device's region":   {false, SendWR{Opcode: OpBindMW, Bind: &MWBind{MW: window, MR: otherMR, RKey: 0x701}}},
		"UD: WRITE":                     {true, SendWR{Opcode: OpRDMAWrite, RemoteAddr: 0x1000}},
		"RC: BIND_MW of nothing":        {false, SendWR{Opcode: OpBindMW}},
		"UD: BIND_MW":                   {true, SendWR{Opcode: OpBindMW, Bind: &MWBind{}}},
		"UD: ATOMIC_WRITE":              {true, SendWR{Opcode: OpAtomicWrite}},
		"UD: FLUSH":                     {true, SendWR{Opcode: OpFlush}},
		"RC: TSO":                       {false, SendWR{Opcode: OpTSO}},
		"RC: an unknown opcode":         {false, SendWR{Opcode: 77}},
		"RC: the opcode of another row": {false, SendWR{Opcode: opcodeRoom + OpSend}},
		"RC: no opcode":                 {false, SendWR{}},
		"UD: no opcode":                 {true, SendWR{}},
	} {
		f := ibvfake.New()
		t.Cleanup(f.Free)
		if c.datagrams {
			f.Datagrams()
		}
		n, err := qpOver(t, f, PostClassic, wide).p.PostSend([]SendWR{c.wr})
		if n != 0 || !errors.Is(err, syscall.EINVAL) || f.WRs() != 0 {
			t.Errorf("%s: %d, %v, %d posted", name, n, err, f.WRs())
		}
		if c.wr.Bind == nil || c.wr.Bind.MW == nil {
			continue
		}
		if err := qpOver(t, f, PostClassic, wide).p.BindMW(1, 0, c.wr.Bind); !errors.Is(err, syscall.EINVAL) || f.WRs() != 0 {
			t.Errorf("%s: BindMW: %v, %d posted", name, err, f.WRs())
		}
	}
}

// TestWhatTheDoorbellRefusesIsQueuedOnce: the provider has queued the chain when the doorbell fails.
func TestWhatTheDoorbellRefusesIsQueuedOnce(t *testing.T) {
	bothPaths(t, func(t *testing.T, path PostPath) {
		f, qp := fakeQPBy(t, path, wide)
		f.Refuse(-2, syscall.EIO)
		var pe *PostError
		if err := qp.PostSend(sendBatch(10)); !errors.As(err, &pe) || pe.Index != 0 || !errors.Is(err, syscall.EIO) {
			t.Errorf("got %v", err)
		}
		if f.Calls() != 1 || f.WRs() != 10 {
			t.Errorf("10 requests were queued as %d, in %d posts", f.WRs(), f.Calls())
		}
	})
}

// TestBuilderNamesWhatDoesNotFit: C reports that a chain is wrong, but not which request.
func TestBuilderNamesWhatDoesNotFit(t *testing.T) {
	inline := wide
	inline.MaxInlineData = 15
	f, qp := fakeQPBy(t, PostWRAPI, inline)
	wr := SendWR{Opcode: OpSend, Flags: SendInline, SGL: []SGE{{Length: 8}, {Length: 7}}}
	long := wr
	long.SGL = []SGE{{Length: 8}, {Length: 8}}
	var pe *PostError
	if err := qp.PostSend([]SendWR{wr, wr, long, wr}); !errors.As(err, &pe) || pe.Index != 2 || !errors.Is(err, syscall.EINVAL) || f.WRs() != 2 {
		t.Errorf("too much inline data: %v, %d posted", err, f.WRs())
	}
}
