//go:build linux && cgo && !nolibibverbs

// Tests of address handles that close during posts.

package verbs

import (
	"sync"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs/internal/ibvfake"
)

// fakeUD makes a UD queue pair and a handle, over a fake's C objects.
func fakeUD(tb testing.TB) (*ibvfake.Fake, *QP, *AH) {
	f := ibvfake.New()
	tb.Cleanup(f.Free)
	f.Datagrams()
	return f, qpOver(tb, f, PostClassic, wide), &AH{p: newIBVAH(fakeDomain, f.AH())}
}

// fakeDatagrams makes a UD queue pair and a batch for it, to two peers in turn.
func fakeDatagrams(tb testing.TB) (*QP, []SendWR) {
	_, qp, one := fakeUD(tb)
	_, _, two := fakeUD(tb)
	wrs := sendBatch(16)
	for i := range wrs {
		wrs[i].Opcode, wrs[i].AH = OpSend, [...]*AH{one, two}[i%2]
	}
	return qp, wrs
}

// TestPeerIsHeldUntilItIsPosted checks that a post holds each handle, once for consecutive requests,
// and releases it whatever the result is.
func TestPeerIsHeldUntilItIsPosted(t *testing.T) {
	f, qp, ah := fakeUD(t)
	_, _, other := fakeUD(t)
	p, s := ah.p.(*ibvAH), &qp.p.(*ibvQP).send
	for i, to := range []*AH{ah, ah, other, ah} {
		if !s.encode(i, &SendWR{Opcode: OpSend, AH: to}) {
			t.Fatalf("request %d is not encoded", i)
		}
	}
	if n := p.n.Load(); n != 2 {
		t.Errorf("held %d times", n)
	}
	s.releasePeers()
	f.Refuse(1, syscall.ENOMEM)
	var pe *PostError
	if err := qp.PostSend([]SendWR{{Opcode: OpSend, AH: ah}, {Opcode: OpSend, AH: ah}}); !errors.As(err, &pe) || pe.Index != 1 {
		t.Errorf("a full queue: %v", err)
	}
	if err := qp.PostSend([]SendWR{{Opcode: OpSend, AH: ah}, {Opcode: OpRDMAWrite}}); !errors.As(err, &pe) || pe.Index != 1 {
		t.Errorf("a WRITE in the middle: %v", err)
	}
	closes(t, &p.posted)
	if err := qp.PostSend([]SendWR{{Opcode: OpSend, AH: ah}}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("after its end: %v", err)
	}
}

// TestPeerIsNotFreedUnderAPost closes a handle while other goroutines post with it.
func TestPeerIsNotFreedUnderAPost(t *testing.T) {
	for range 20 {
		f, qp, ah := fakeUD(t)
		wrs := sendBatch(64)
		for i := range wrs {
			wrs[i].Opcode, wrs[i].AH = OpSend, ah
		}
		var posting, all sync.WaitGroup
		posting.Add(1)
		all.Go(func() {
			for first := true; qp.PostSend(wrs) == nil; first = false {
				if first {
					posting.Done()
				}
			}
		})
		posting.Wait()
		if err := ah.p.(*ibvAH).end(func() error { f.FreeAH(); return nil }); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		if n := f.Lost(); n > 0 {
			t.Fatalf("%d datagrams were posted with a handle that was freed", n)
		}
	}
}
