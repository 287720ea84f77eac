//go:build linux && cgo && !nolibibverbs

package verbs

import (
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs/internal/ibvfake"
)

func fakeCQEx(tb testing.TB, ex WCExFlags) (*ibvfake.Fake, *CQ, *ibvCQ) {
	f := ibvfake.New()
	tb.Cleanup(f.Free)
	p := newIBVCQ(f.CQ(), nil)
	p.ex = ex
	return f, &CQ{p: p, overran: new(atomic.Bool)}, p
}

func TestPollExReadsWhatWasAskedFor(t *testing.T) {
	f, cq, _ := fakeCQEx(t, ibvWCEx)
	f.Completes(3, 42, 0xa1b2c3d4, 0)
	wcs := make([]WCEx, 8)
	n, err := cq.PollEx(wcs)
	if err != nil || n != 3 {
		t.Fatalf("PollEx: %d, %v", n, err)
	}
	want := WCEx{WC: WC{ID: 42, Opcode: WCRecv, ByteLen: 77, QPN: 0x11, SrcQPN: 0x22, Flags: WCWithImm, immOrRKey: [4]byte{0xa1, 0xb2, 0xc3, 0xd4}, SLID: 0x33, SL: 4, DLIDPath: 9},
		Timestamp: 0x1122334455667788, WallclockNS: 1700000000000000001, FlowTag: 0xdef012, CVLAN: 0xabc}
	for _, wc := range wcs[:n] {
		if wc != want || !wc.Wallclock().Equal(time.Unix(1700000000, 1)) {
			t.Errorf("got %+v\nwant %+v", wc, want)
		}
	}
	if starts, nexts, ends := f.Batches(); starts != 1 || nexts != 3 || ends != 1 {
		t.Errorf("%d starts, %d steps, %d ends", starts, nexts, ends)
	}

	f, cq, _ = fakeCQEx(t, WCExByteLen)
	f.Completes(1, 42, 0xa1b2c3d4, 0)
	wcs[0] = want
	if _, err := cq.PollEx(wcs[:1]); err != nil || wcs[0] != (WCEx{WC: WC{ID: 42, Opcode: WCRecv, ByteLen: 77, Flags: WCWithImm}}) {
		t.Errorf("only the length: %+v, %v", wcs[0], err)
	}

	f, cq, _ = fakeCQEx(t, ibvWCEx)
	f.Completes(1, 42, 0, 0)
	f.Fails(uint32(WCRetryExcErr), 0x81)
	if _, err := cq.PollEx(wcs[:1]); err != nil || wcs[0].Status != WCRetryExcErr || wcs[0].VendorErr != 0x81 || wcs[0].QPN != 0x11 || wcs[0].ByteLen != 0 {
		t.Errorf("a failure: %+v, %v", wcs[0], err)
	}
}

// TestPollExAloneNeverWalksABatch checks that completions are read one by one.
func TestPollExAloneNeverWalksABatch(t *testing.T) {
	f, cq, p := fakeCQEx(t, WCExStandard)
	p.alone = true
	f.Completes(3, 1, 2, 0)
	n, err := cq.PollEx(make([]WCEx, 8))
	starts, nexts, ends := f.Batches()
	if n != 3 || err != nil || starts != 4 || nexts != 0 || ends != 3 {
		t.Errorf("%d, %v; %d starts, %d steps, %d ends", n, err, starts, nexts, ends)
	}
	if n, err = cq.PollEx(make([]WCEx, 2)); n != 2 || err != nil {
		t.Errorf("a full slice: %d, %v", n, err)
	}
	if starts, _, ends = f.Batches(); starts != 6 || ends != 5 {
		t.Errorf("%d starts, %d ends", starts, ends)
	}
}

func TestPollExRefuses(t *testing.T) {
	f, cq, p := fakeCQEx(t, WCExStandard)
	f.Completes(0, 0, 0, 0)
	for _, into := range [][]WCEx{nil, make([]WCEx, 4)} {
		if n, err := cq.PollEx(into); n != 0 || err != nil {
			t.Errorf("an empty one: %d, %v", n, err)
		}
	}
	f.Completes(-1, 0, 0, syscall.EIO)
	if _, err := cq.PollEx(make([]WCEx, 4)); !errors.Is(err, syscall.EIO) {
		t.Errorf("a broken one: %v", err)
	}
	p.ex = 0
	if _, err := cq.PollEx(make([]WCEx, 4)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a plain one: %v", err)
	}
	p.cq = nil
	if _, err := cq.PollEx(make([]WCEx, 4)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed one: %v", err)
	}
}

func TestPollExAllocatesNothing(t *testing.T) {
	f, cq, _ := fakeCQEx(t, WCExStandard)
	f.Completes(16, 1, 2, 0)
	wcs := make([]WCEx, 16)
	if n := testing.AllocsPerRun(100, func() { _, _ = cq.PollEx(wcs) }); n != 0 {
		t.Errorf("PollEx allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = cq.WaitFor(t.Context(), nil, WaitOptions{Ex: wcs, NoSleep: true}) }); n != 0 {
		t.Errorf("WaitFor allocates %v times", n)
	}
}

func BenchmarkPollEx(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		f, cq, _ := fakeCQEx(b, WCExStandard)
		wcs := make([]WCEx, n)
		b.Run(fmt.Sprintf("batch=%d/Go", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.Completes(n, 1, 2, 0)
				if got, err := cq.PollEx(wcs); err != nil || got != n {
					b.Fatal(got, err)
				}
			}
			perWR(b, n)
		})
	}
}
