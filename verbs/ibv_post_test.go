//go:build linux && cgo && !nolibibverbs

package verbs

import (
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs/internal/ccall"
	"github.com/rawverbs/rawverbs/verbs/internal/ccall/ccalltest"
	"github.com/rawverbs/rawverbs/verbs/internal/ibvfake"
)

// fakeDomain is the domain of all fakes' objects.
var fakeDomain = &ibvPD{d: new(ibvDevice)}

// fakeQP makes a queue pair of libibverbs' provider over fake operations.
func fakeQP(tb testing.TB, cap QPCap) (*ibvfake.Fake, *QP) { return fakeQPBy(tb, PostClassic, cap) }

// fakeQPBy is fakeQP with a PostPath.
func fakeQPBy(tb testing.TB, path PostPath, cap QPCap) (*ibvfake.Fake, *QP) {
	f := ibvfake.New()
	tb.Cleanup(f.Free)
	return f, qpOver(tb, f, path, cap)
}

func qpOver(tb testing.TB, f *ibvfake.Fake, path PostPath, cap QPCap) *QP {
	cq := &CQ{overran: new(atomic.Bool)}
	var ex unsafe.Pointer
	if path == PostWRAPI {
		ex = f.Builder()
	}
	p := newIBVQP(fakeDomain, f.QP(), ex, cap)
	p.send.ready = true
	tb.Cleanup(func() { p.send.free(); p.recv.free() })
	return &QP{p: p, init: QPInit{Type: RC, SendCQ: cq, RecvCQ: cq}, handle: handle{closed: true}} // posts reach the fake; a query would reach libibverbs
}

// bothPaths runs a test with each PostPath.
func bothPaths(t *testing.T, test func(t *testing.T, path PostPath)) {
	for _, path := range []PostPath{PostClassic, PostWRAPI} {
		t.Run(path.String(), func(t *testing.T) { test(t, path) })
	}
}

func fakeOf(tb testing.TB) *ibvfake.Fake {
	f := ibvfake.New()
	tb.Cleanup(f.Free)
	return f
}

func fakeCQ(tb testing.TB) (*ibvfake.Fake, *CQ) {
	f := ibvfake.New()
	tb.Cleanup(f.Free)
	p := newIBVCQ(f.CQ(), nil)
	return f, &CQ{p: p, spinner: p, overran: new(atomic.Bool)}
}

var wide = QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 64}

func TestPostSendEncodesEachOpcode(t *testing.T) { bothPaths(t, encodesEachOpcode) }

func encodesEachOpcode(t *testing.T, path PostPath) {
	f, qp := fakeQPBy(t, path, wide)
	if qp.PostPath() != path {
		t.Errorf("it posts by %v", qp.PostPath())
	}
	sgl := []SGE{{Addr: 0x1000, Length: 7, LKey: 0x42}}
	for _, c := range []struct {
		wr   SendWR
		want ibvfake.Sent
	}{
		{SendWR{ID: 1, Opcode: OpSend, Flags: SendSignaled}, ibvfake.Sent{ID: 1, Opcode: 2, Flags: 2}},
		{SendWR{ID: 2, Opcode: OpSendWithImm, Imm: 0x01020304}, ibvfake.Sent{ID: 2, Opcode: 3, ImmWire: 0x01020304}},
		{SendWR{ID: 3, Opcode: OpRDMAWrite, RemoteAddr: 0xabcd, RKey: 5}, ibvfake.Sent{ID: 3, RemoteAddr: 0xabcd, RKey: 5}},
		{SendWR{ID: 4, Opcode: OpRDMAWriteWithImm, RemoteAddr: 0xabcd, RKey: 5, Imm: 9},
			ibvfake.Sent{ID: 4, Opcode: 1, RemoteAddr: 0xabcd, RKey: 5, ImmWire: 9}},
		{SendWR{ID: 5, Opcode: OpRDMARead, Flags: SendFence | SendSolicited, RemoteAddr: 8, RKey: 6},
			ibvfake.Sent{ID: 5, Opcode: 4, Flags: 5, RemoteAddr: 8, RKey: 6}},
		{SendWR{ID: 6, Opcode: OpAtomicCmpAndSwp, RemoteAddr: 8, RKey: 6, CompareAdd: 10, Swap: 11},
			ibvfake.Sent{ID: 6, Opcode: 5, RemoteAddr: 8, CompareAdd: 10, Swap: 11, AtomicRKey: 6}},
		{SendWR{ID: 7, Opcode: OpAtomicFetchAndAdd, RemoteAddr: 8, RKey: 6, CompareAdd: 10},
			ibvfake.Sent{ID: 7, Opcode: 6, RemoteAddr: 8, CompareAdd: 10, AtomicRKey: 6}},
		{SendWR{ID: 8, Opcode: OpSendWithInvalidate, InvalidateRKey: 0x77}, ibvfake.Sent{ID: 8, Opcode: 9, InvalidateRKey: 0x77}},
		{SendWR{ID: 9, Opcode: OpLocalInv, InvalidateRKey: 0x78}, ibvfake.Sent{ID: 9, Opcode: 7, InvalidateRKey: 0x78}},
	} {
		t.Run(c.wr.Opcode.String(), func(t *testing.T) {
			c.wr.SGL = sgl
			if err := qp.PostSend([]SendWR{c.wr}); err != nil {
				t.Fatal(err)
			}
			got := f.Send(0)
			c.want.NumSGE, c.want.Addr, c.want.Length, c.want.LKey = 1, 0x1000, 7, 0x42
			if c.wr.Opcode == OpLocalInv { // it has no data
				c.want.NumSGE, got.Addr, got.Length, got.LKey = 0, 0x1000, 7, 0x42
			}
			switch c.wr.Opcode { // fields that the opcode does not use stay unchanged
			case OpAtomicCmpAndSwp, OpAtomicFetchAndAdd:
				got.RKey, c.want.RKey = 0, 0
			default:
				got.CompareAdd, got.Swap, got.AtomicRKey = 0, 0, 0
				if c.want.RKey == 0 {
					got.RemoteAddr, got.RKey = 0, 0
				}
			}
			if c.want.ImmWire == 0 {
				got.ImmWire = 0
			}
			if c.want.InvalidateRKey == 0 {
				got.InvalidateRKey = 0
			}
			if got != c.want {
				t.Errorf("C saw %+v\nwant  %+v", got, c.want)
			}
		})
	}
}

func TestPostIsOneCallHoweverLong(t *testing.T) { bothPaths(t, isOneCall) }

func isOneCall(t *testing.T, path PostPath) {
	for _, n := range []int{1, 2, 63, 64} {
		f, qp := fakeQPBy(t, path, wide)
		if err := qp.PostSend(sendBatch(n)); err != nil {
			t.Fatal(err)
		}
		if err := qp.PostRecv(make([]RecvWR, n)); err != nil {
			t.Fatal(err)
		}
		if f.Calls() != 2 || f.WRs() != 2*n {
			t.Errorf("%d sends and %d receives took %d calls for %d requests", n, n, f.Calls(), f.WRs())
		}
	}
}

func TestPostOfNothingDoesNothing(t *testing.T) {
	f, qp := fakeQP(t, wide)
	if err := errors.WithStack(qp.PostSend(nil)); err != nil {
		t.Error(err)
	}
	if err := qp.PostRecv(nil); err != nil {
		t.Error(err)
	}
	if f.Calls() != 0 {
		t.Errorf("%d calls", f.Calls())
	}
}

// TestPostMoreThanTheQueueHolds posts in pieces; the error names the first request that did not fit.
func TestPostMoreThanTheQueueHolds(t *testing.T) {
	f, qp := fakeQP(t, wide)
	if err := qp.PostSend(sendBatch(130)); err != nil {
		t.Fatal(err)
	}
	if f.WRs() != 130 || f.Calls() != 3 {
		t.Errorf("%d requests in %d calls", f.WRs(), f.Calls())
	}
}

func TestPostRecvEncodes(t *testing.T) {
	f, qp := fakeQP(t, wide)
	if err := qp.PostRecv([]RecvWR{{ID: 5, SGL: []SGE{{Addr: 1}, {Addr: 2}}}, {ID: 6}}); err != nil {
		t.Fatal(err)
	}
	if id, addr, n := f.RecvID(0); id != 5 || addr != 1 || n != 2 {
		t.Errorf("first: id %d addr %d with %d elements", id, addr, n)
	}
	if id, _, n := f.RecvID(1); id != 6 || n != 0 {
		t.Errorf("second: id %d with %d elements", id, n)
	}
}

func TestPollFillsTheCallersSlice(t *testing.T) {
	f, cq := fakeCQ(t)
	f.Completes(3, 42, 0xa1b2c3d4, 0)
	wcs := make([]WC, 8)
	n, err := cq.Poll(wcs)
	if err != nil || n != 3 {
		t.Fatalf("Poll: %d, %v", n, err)
	}
	for _, wc := range wcs[:n] {
		if wc.ID != 42 || wc.Opcode != WCRecv || wc.Imm() != 0xa1b2c3d4 || wc.ByteLen != 77 || wc.QPN != 0x11 || wc.DLIDPath != 9 {
			t.Errorf("got %+v, imm %#x", wc, wc.Imm())
		}
	}
	if n, err := cq.Poll(nil); n != 0 || err != nil {
		t.Errorf("Poll into nothing: %d, %v", n, err)
	}
	f.Completes(-1, 0, 0, syscall.EIO)
	if _, err := cq.Poll(wcs); !errors.Is(err, syscall.EIO) {
		t.Errorf("a broken queue: %v", err)
	}
}

func TestSpin(t *testing.T) {
	for _, c := range []struct {
		name        string
		polls       int
		empty       int // polls that find nothing
		wantN       int
		wantInC     int // polls of libibverbs
		completions int
		want        error
	}{
		{"at once", 10, 0, 2, 1, 2, nil},
		{"after three that found nothing", 10, 3, 2, 4, 2, nil},
		{"by the last", 4, 3, 2, 4, 2, nil},
		{"too late", 3, 3, 0, 3, 2, nil},
		{"once", 1, 3, 0, 1, 2, nil},
		{"a queue that breaks", 10, 3, 0, 4, -1, syscall.EIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, cq := fakeCQ(t)
			f.Completes(c.completions, 42, 0, syscall.EIO)
			f.Empty(c.empty)
			n, err := cq.p.(ProviderCQSpinner).Spin(make([]WC, 8), c.polls)
			if n != c.wantN || !errors.Is(err, c.want) || f.Polls() != c.wantInC {
				t.Errorf("%d, %v by %d polls, want %d, %v by %d", n, err, f.Polls(), c.wantN, c.want, c.wantInC)
			}
		})
	}
}

// TestWaitCounts: completions count in a device's WCCounts, whichever poll of a wait finds them.
func TestWaitCounts(t *testing.T) {
	for _, empty := range []int{0, 3, spinPolls + 3} {
		f, cq := fakeCQ(t)
		cq.wcs = new(WCCounts)
		f.Completes(2, 42, 0, 0)
		f.Empty(empty)
		n, err := cq.WaitFor(t.Context(), make([]WC, 8), WaitOptions{Spin: time.Hour, NoSleep: true})
		if counted := cq.wcs.counts[WCSuccess].Load(); n != 2 || err != nil || counted != 2 || f.Polls() != empty+1 {
			t.Errorf("after %d polls in vain: %d completions, %v; %d counted, %d polls", empty, n, err, counted, f.Polls())
		}
	}
}

func TestPostAfterClose(t *testing.T) {
	_, qp := fakeQP(t, wide)
	p := qp.p.(*ibvQP)
	saved, savedRecv := p.send, p.recv
	p.send, p.recv = sendSlots{}, recvSlots{}
	defer func() { p.send, p.recv = saved, savedRecv }()
	if err := qp.PostSend(sendBatch(1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("PostSend: %v", err)
	}
	if err := qp.PostRecv(make([]RecvWR, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("PostRecv: %v", err)
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	_, qp := fakeQP(t, wide)
	_, built := fakeQPBy(t, PostWRAPI, wide)
	binding, bind := fakeBind(t)
	datagrams, toPeers := fakeDatagrams(t)
	inlining, inlined := fakeInline(t)
	f, cq := fakeCQ(t)
	f.Completes(16, 1, 2, 0)
	sends, recvs, wcs := sendBatch(16), recvBatch(16), make([]WC, 16)
	for name, hot := range map[string]func(){
		"PostSend":                func() { _ = qp.PostSend(sends) },
		"PostSend by the builder": func() { _ = built.PostSend(sends) },
		"PostSend inline":         func() { _ = inlining.PostSend(inlined) },
		"PostSend of datagrams":   func() { _ = datagrams.PostSend(toPeers) },
		"PostSend of a bind":      func() { _ = binding.PostSend(bind) },
		"PostRecv":                func() { _ = qp.PostRecv(recvs) },
		"Poll":                    func() { _, _ = cq.Poll(wcs) },
		"Spin":                    func() { f.Empty(3); _, _ = cq.WaitFor(t.Context(), wcs, WaitOptions{Spin: 1, NoSleep: true}) },
	} {
		if n := testing.AllocsPerRun(100, hot); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func sendBatch(n int) []SendWR {
	wrs := make([]SendWR, n)
	for i := range wrs {
		wrs[i] = SendWR{ID: uint64(i), Opcode: OpRDMAWrite, Flags: SendSignaled, RemoteAddr: 1, RKey: 2, SGL: []SGE{{Addr: 3, Length: 4, LKey: 5}}}
	}
	return wrs
}

// fakeInline makes a queue pair and a batch of inline data, on a device with a region from which C
// cannot read inline data.
func fakeInline(tb testing.TB) (*QP, []SendWR) {
	f, qp := fakeQP(tb, wide)
	newIBVMR(fakeDomain.d, f.MR()).remap(qp.p.(*ibvQP).send.remapped)
	wrs := sendBatch(16)
	for i := range wrs {
		wrs[i].Flags |= SendInline
	}
	return qp, wrs
}

func recvBatch(n int) []RecvWR {
	wrs := make([]RecvWR, n)
	for i := range wrs {
		wrs[i] = RecvWR{ID: uint64(i), SGL: []SGE{{Addr: 3, Length: 4, LKey: 5}}}
	}
	return wrs
}

// The figure of interest is ns/WR. InC is the same work without leaving C: subtract it to get the cost
// of the crossing and the encoding.

// BenchmarkCrossing measures the least cost of a batch of one, and that of cgo.
func BenchmarkCrossing(b *testing.B) {
	b.Run("Call", func(b *testing.B) {
		for b.Loop() {
			ccall.Call(ccalltest.SetErrno, 0, 0, 0, 0, nil)
		}
	})
	b.Run("cgo", func(b *testing.B) {
		f, _ := fakeQP(b, wide)
		for b.Loop() {
			f.Cross()
		}
	})
}

func BenchmarkPostSend(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		f, qp := fakeQP(b, wide)
		wrs := sendBatch(n)
		b.Run(fmt.Sprintf("batch=%d/Go", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := qp.PostSend(wrs); err != nil {
					b.Fatal(err)
				}
			}
			perWR(b, n)
		})
		_, built := fakeQPBy(b, PostWRAPI, wide)
		b.Run(fmt.Sprintf("batch=%d/GoBuilder", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := built.PostSend(wrs); err != nil {
					b.Fatal(err)
				}
			}
			perWR(b, n)
		})
		b.Run(fmt.Sprintf("batch=%d/InC", n), func(b *testing.B) {
			f.PostInC(n, b.N)
			perWR(b, n)
		})
	}
	for name, fake := range map[string]func(testing.TB) (*QP, []SendWR){"GoDatagrams": fakeDatagrams, "GoInline": fakeInline} {
		qp, wrs := fake(b)
		b.Run(fmt.Sprintf("batch=%d/%s", len(wrs), name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := qp.PostSend(wrs); err != nil {
					b.Fatal(err)
				}
			}
			perWR(b, len(wrs))
		})
	}
}

func BenchmarkPostRecv(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		_, qp := fakeQP(b, wide)
		wrs := recvBatch(n)
		b.Run(fmt.Sprintf("batch=%d/Go", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := qp.PostRecv(wrs); err != nil {
					b.Fatal(err)
				}
			}
			perWR(b, n)
		})
	}
}

func BenchmarkPoll(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		f, cq := fakeCQ(b)
		f.Completes(n, 1, 2, 0)
		wcs := make([]WC, n)
		b.Run(fmt.Sprintf("batch=%d/Go", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := cq.Poll(wcs); err != nil {
					b.Fatal(err)
				}
			}
			perWR(b, n)
		})
		b.Run(fmt.Sprintf("batch=%d/InC", n), func(b *testing.B) {
			f.PollInC(n, b.N)
			perWR(b, n)
		})
	}
}

// BenchmarkPollNothing polls 64 times for a completion that does not come.
func BenchmarkPollNothing(b *testing.B) {
	const polls = 64
	f, cq := fakeCQ(b)
	f.Completes(0, 0, 0, 0)
	wcs := make([]WC, 16)
	for name, poll := range map[string]func(){
		"Poll": func() {
			for range polls {
				_, _ = cq.Poll(wcs)
			}
		},
		"Spin": func() { _, _ = cq.WaitFor(b.Context(), wcs, WaitOptions{Spin: 1, NoSleep: true}) },
		"InC":  func() { f.PollInC(len(wcs), polls) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				poll()
			}
			perWR(b, polls)
		})
	}
}

func perWR(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/WR")
}
