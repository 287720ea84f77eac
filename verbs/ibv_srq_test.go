//go:build linux && cgo && !nolibibverbs

package verbs

import (
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs/internal/ibvfake"
)

// fakeSRQ makes an SRQ of libibverbs' provider over fake operations.
func fakeSRQ(tb testing.TB, granted SRQAttr) (*ibvfake.Fake, *SRQ) {
	f := ibvfake.New()
	tb.Cleanup(f.Free)
	p := newIBVSRQ(f.SRQ(), granted, nil)
	tb.Cleanup(func() { p.recv.free() })
	return f, &SRQ{p: p, handle: handle{closed: true}} // posts reach the fake; a query would reach libibverbs
}

var wideSRQ = SRQAttr{MaxWR: 64, MaxSGE: 2}

func TestSRQPostEncodes(t *testing.T) {
	f, srq := fakeSRQ(t, wideSRQ)
	if err := srq.PostRecv([]RecvWR{{ID: 5, SGL: []SGE{{Addr: 1}, {Addr: 2}}}, {ID: 6}}); err != nil {
		t.Fatal(err)
	}
	if id, addr, n := f.RecvID(0); id != 5 || addr != 1 || n != 2 {
		t.Errorf("first: id %d addr %d with %d elements", id, addr, n)
	}
	if id, _, n := f.RecvID(1); id != 6 || n != 0 {
		t.Errorf("second: id %d with %d elements", id, n)
	}
	if f.Calls() != 1 || f.WRs() != 2 {
		t.Errorf("%d receives in %d calls", f.WRs(), f.Calls())
	}
	if err := srq.PostRecv(nil); err != nil || f.Calls() != 1 {
		t.Errorf("a post of nothing: %v, %d calls", err, f.Calls())
	}
}

// TestSRQPostMoreThanTheSlots posts to an SRQ larger than its C memory.
func TestSRQPostMoreThanTheSlots(t *testing.T) {
	f, srq := fakeSRQ(t, SRQAttr{MaxWR: 1 << 20, MaxSGE: 1})
	if err := srq.PostRecv(make([]RecvWR, 2*manyAtOnce+1)); err != nil || f.WRs() != 2*manyAtOnce+1 || f.Calls() != 3 {
		t.Errorf("%v: %d receives in %d calls", err, f.WRs(), f.Calls())
	}
}

func TestSRQPostSaysWhichRequestWasRefused(t *testing.T) {
	f, srq := fakeSRQ(t, wideSRQ)
	f.Refuse(3, syscall.ENOMEM)
	var pe *PostError
	if err := srq.PostRecv(make([]RecvWR, 10)); !errors.As(err, &pe) || pe.Index != 3 || !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("got %v", err)
	} else if want := "ibv_post_srq_recv on an SRQ: work request [3] refused: ENOMEM (12, cannot allocate memory); try: " +
		"poll completions before posting more (the SRQ is full), or use fewer SGEs"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	f.Refuse(-1, 0)
	if err := srq.PostRecv([]RecvWR{{}, {SGL: make([]SGE, 3)}, {}}); !errors.As(err, &pe) || pe.Index != 1 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("too many SGEs in the middle: %v", err)
	}
	if f.WRs() != 3+1 {
		t.Errorf("%d were queued", f.WRs())
	}
}

func TestSRQPostAfterClose(t *testing.T) {
	_, srq := fakeSRQ(t, wideSRQ)
	p := srq.p.(*ibvSRQ)
	saved := p.recv
	p.recv = recvSlots{}
	defer func() { p.recv = saved }()
	if err := srq.PostRecv(make([]RecvWR, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("PostRecv: %v", err)
	}
}

// TestPostRecvWithAnSRQ: a provider in C may have no receive queue and crash.
func TestPostRecvWithAnSRQ(t *testing.T) {
	f, qp := fakeQP(t, wide)
	qp.p.(*ibvQP).onSRQ = true
	var pe *PostError
	if err := qp.PostRecv(make([]RecvWR, 1)); !errors.As(err, &pe) || pe.Index != 0 || !errors.Is(err, syscall.EINVAL) || f.Calls() != 0 {
		t.Errorf("got %v after %d calls", err, f.Calls())
	}
}

func TestSRQPostAllocatesNothing(t *testing.T) {
	_, srq := fakeSRQ(t, wideSRQ)
	recvs := recvBatch(16)
	if n := testing.AllocsPerRun(100, func() { _ = srq.PostRecv(recvs) }); n != 0 {
		t.Errorf("PostRecv allocates %v times", n)
	}
}

func BenchmarkSRQPostRecv(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		_, srq := fakeSRQ(b, wideSRQ)
		wrs := recvBatch(n)
		b.Run(fmt.Sprintf("batch=%d/Go", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := srq.PostRecv(wrs); err != nil {
					b.Fatal(err)
				}
			}
			perWR(b, n)
		})
	}
}
