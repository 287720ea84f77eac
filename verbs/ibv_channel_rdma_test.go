//go:build rdma && linux && cgo && !nolibibverbs

package verbs

import (
	"context"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
)

// TestEventsOfArmedCQsDoNotPileUp arms and polls repeatedly and never waits, so no goroutine reads
// the channel.
func TestEventsOfArmedCQsDoNotPileUp(t *testing.T) {
	d := openTestDevice(t)
	pd := must[*PD](t)(d.AllocPD())
	ch := must[*CompChannel](t)(d.CreateCompChannel())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 8, Channel: ch}))
	qp := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq,
		Cap: QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}))
	defer closeRoom(t, qp, cq, ch, pd)
	m := qpstate.NewMachine(RC, qp, nil)
	for range 4 * maxEvents {
		if err := cq.Arm(false); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{m.ToInit(QPAttr{PortNum: 1}), qp.PostRecv([]RecvWR{{ID: 1}}), m.ToError()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		testkit.Until(t, "flush of the receive", func() bool {
			n, err := cq.Poll(make([]WC, 1))
			if err != nil {
				t.Fatal(err)
			}
			return n > 0
		})
		if err := m.ToReset(); err != nil {
			t.Fatal(err)
		}
	}
	p, left := ch.p.(*ibvCompChannel), 0
	for p.events.now() == nil {
		left += p.n
	}
	if left == 0 || left > maxEvents {
		t.Errorf("%d events were left unread, want 1 to %d", left, maxEvents)
	}
}

// TestCloseEndsTheReadersWait closes a CQ and then the channel, at any moment of a wait.
func TestCloseEndsTheReadersWait(t *testing.T) {
	d := openTestDevice(t)
	for range 200 {
		ch := must[*CompChannel](t)(d.CreateCompChannel())
		cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 8, Channel: ch}))
		woken := make(chan error)
		go func() {
			_, err := cq.Wait(context.Background(), make([]WC, 1))
			woken <- err
		}()
		time.Sleep(rand.N(300 * time.Microsecond))
		closeRoom(t, cq, ch)
		if err := <-woken; !errors.Is(err, net.ErrClosed) {
			t.Fatalf("got %v", err)
		}
	}
}
