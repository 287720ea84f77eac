//go:build linux && cgo && !nolibibverbs

// Tests of batches that are longer than one call into C.

package verbs

import (
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestLongBatchesAreSeveralCalls: the garbage collector waits for each call.
func TestLongBatchesAreSeveralCalls(t *testing.T) {
	const many, calls = 2*manyAtOnce + 88, 3
	for _, path := range []PostPath{PostClassic, PostWRAPI} {
		f, qp := fakeQPBy(t, path, QPCap{MaxSendWR: 1000, MaxRecvWR: 1000, MaxSendSGE: 1, MaxRecvSGE: 1})
		if err := qp.PostSend(sendBatch(many)); err != nil || f.Calls() != calls || f.WRs() != many {
			t.Errorf("PostSend (%v): %d requests in %d calls, %v", path, f.WRs(), f.Calls(), err)
		}
	}
	f, qp := fakeQP(t, QPCap{MaxSendWR: 1, MaxRecvWR: 1000, MaxSendSGE: 1, MaxRecvSGE: 1})
	if err := qp.PostRecv(recvBatch(many)); err != nil || f.Calls() != calls || f.WRs() != many {
		t.Errorf("PostRecv: %d requests in %d calls, %v", f.WRs(), f.Calls(), err)
	}
	f, cq := fakeCQ(t)
	f.Completes(manyAtOnce, 1, 7, 0)
	wcs := make([]WC, many)
	n, err := cq.Poll(wcs)
	if n != many || err != nil || f.Polls() != calls {
		t.Errorf("Poll: %d in %d calls, %v", n, f.Polls(), err)
	}
	for i := range wcs {
		if wcs[i].ID != 1 || wcs[i].Imm() != 7 {
			t.Fatalf("completion %d is %+v", i, wcs[i])
		}
	}
	f, cq = fakeCQ(t)
	f.Completes(manyAtOnce-1, 1, 7, 0) // a call that returns fewer than it could is the last
	if n, err := cq.Poll(wcs); n != manyAtOnce-1 || err != nil || f.Polls() != 1 {
		t.Errorf("Poll: %d in %d calls, %v", n, f.Polls(), err)
	}
	f, cq = fakeCQ(t)
	f.Empty(10 * pollsAtOnce)
	if n, err := cq.p.(ProviderCQSpinner).Spin(wcs, 2*pollsAtOnce+500); n != 0 || err != nil || f.Polls() != 2*pollsAtOnce+500 {
		t.Errorf("Spin in vain: %d by %d polls, %v", n, f.Polls(), err)
	}
	f, cq = fakeCQ(t)
	f.Empty(3 * pollsAtOnce)
	f.Completes(1, 1, 7, 0)
	if n, err := cq.p.(ProviderCQSpinner).Spin(wcs, 4*pollsAtOnce); n != 1 || err != nil || f.Polls() != 3*pollsAtOnce+1 {
		t.Errorf("Spin: %d by %d polls, %v", n, f.Polls(), err)
	}

	f, cq, _ = fakeCQEx(t, WCExStandard)
	f.Completes(2*many, 1, 7, 0)
	exs := make([]WCEx, many)
	n, err = cq.PollEx(exs)
	if starts, _, _ := f.Batches(); n != many || err != nil || starts != calls || exs[many-1].ID != 1 {
		t.Errorf("PollEx: %d in %d batches, %v", n, starts, err)
	}
}

// TestLongBatchesNameTheRefused checks that the index counts from the start of the whole batch.
func TestLongBatchesNameTheRefused(t *testing.T) {
	const many, bad = manyAtOnce + 44, manyAtOnce + 4
	queued := func(what string, f interface{ WRs() int }, err error) {
		t.Helper()
		var pe *PostError
		if !errors.As(err, &pe) || pe.Index != bad || !errors.Is(err, syscall.EINVAL) || f.WRs() != bad {
			t.Errorf("%s: %d queued, %v", what, f.WRs(), err)
		}
	}
	long := QPCap{MaxSendWR: 1000, MaxRecvWR: 1000, MaxSendSGE: 1, MaxRecvSGE: 1}
	for _, path := range []PostPath{PostClassic, PostWRAPI} {
		f, qp := fakeQPBy(t, path, long)
		wrs := sendBatch(many)
		wrs[bad].SGL = make([]SGE, 2)
		queued("PostSend", f, qp.PostSend(wrs))
	}
	f, qp := fakeQP(t, long)
	wrs := recvBatch(many)
	wrs[bad].SGL = make([]SGE, 2)
	queued("PostRecv", f, qp.PostRecv(wrs))
}

// TestLongPostsDoNotHoldUpTheCollector: some devices (rxe) send the packets within the call. The
// collector must not wait for that.
func TestLongPostsDoNotHoldUpTheCollector(t *testing.T) {
	big := sendBatch(1)
	big[0].SGL = []SGE{{Addr: 3, Length: briefBytes/2 + 1}, {Addr: 3, Length: briefBytes / 2}}
	for name, wrs := range map[string][]SendWR{"many": sendBatch(briefWRs + 1), "large": big} {
		f, qp := fakeQP(t, QPCap{MaxSendWR: 100, MaxRecvWR: 1, MaxSendSGE: 2, MaxRecvSGE: 1})
		f.Block(testkit.Limit)
		var all sync.WaitGroup
		all.Go(func() {
			if err := qp.PostSend(wrs); err != nil {
				t.Error(err)
			}
		})
		testkit.Until(t, "post", f.Blocked)
		runtime.GC() // stops the world
		if !f.Blocked() {
			t.Errorf("%s: the world stopped only after the post", name)
		}
		f.Release()
		all.Wait()
	}
}

// TestBriefPosts checks that posts up to the limits are direct calls.
func TestBriefPosts(t *testing.T) {
	_, qp := fakeQP(t, QPCap{MaxSendWR: 100, MaxRecvWR: 1, MaxSendSGE: 2, MaxRecvSGE: 1})
	s := &qp.p.(*ibvQP).send
	batch := func(n int, lengths ...uint32) {
		for i := range n {
			wr := SendWR{Opcode: OpSend}
			for _, length := range lengths {
				wr.SGL = append(wr.SGL, SGE{Length: length})
			}
			if !s.encode(i, &wr) {
				t.Fatalf("request %d is refused", i)
			}
		}
	}
	for _, c := range []struct {
		n       int
		lengths []uint32
		brief   bool
	}{
		{briefWRs, []uint32{briefBytes / briefWRs}, true}, {briefWRs, []uint32{briefBytes / briefWRs, 1}, false},
		{briefWRs + 1, nil, false}, {1, []uint32{briefBytes}, true}, {2, []uint32{1 << 31, 1 << 31}, false},
	} {
		batch(c.n, c.lengths...)
		if got := s.brief(c.n); got != c.brief {
			t.Errorf("%d requests of %v bytes: brief is %v", c.n, c.lengths, got)
		}
	}
}
