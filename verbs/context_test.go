package verbs

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
)

// stalledRoom is a queue pair whose device's Modify and CreateAH return when release is called.
func stalledRoom(t *testing.T) (pd *PD, qp *QP, p *paper, release, closeAll func()) {
	d, p := newPaperDevice()
	pd = must[*PD](t)(d.AllocPD())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	qp = must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq}))
	p.stall = make(chan struct{})
	return pd, qp, p, func() { close(p.stall) }, func() { closeRoom(t, qp, cq, pd, d) }
}

var toInit = QPAttr{State: qpstate.Init, PortNum: 1}

// TestCloseDoesNotWaitForModify checks that Close does not wait seconds for a Modify.
func TestCloseDoesNotWaitForModify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, qp, _, release, closeAll := stalledRoom(t)
		done := make(chan error)
		go func() { done <- qp.Modify(&toInit, qpstate.MaskState|qpstate.MaskPort) }()
		synctest.Wait() // until the Modify is in flight
		began := time.Now()
		if err := qp.Close(); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "1 ibv_modify_qp") || time.Since(began) > time.Second {
			t.Errorf("Close beside Modify, after %v: %v", time.Since(began), err)
		}
		if _, err := qp.Query(qpstate.MaskState); err != nil {
			t.Errorf("Query beside Modify: %v", err)
		}
		release()
		if err := <-done; err != nil {
			t.Errorf("Modify: %v", err)
		}
		closeAll()
	})
}

// TestCloseWaitsForAShortModify checks that Close waits for a Modify that takes microseconds.
func TestCloseWaitsForAShortModify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, qp, _, release, closeAll := stalledRoom(t)
		done := make(chan error, 1)
		go func() { done <- qp.Modify(&toInit, qpstate.MaskState|qpstate.MaskPort) }()
		synctest.Wait()
		time.AfterFunc(closePatience/2, release)
		closeAll()
		if err := <-done; err != nil {
			t.Errorf("Modify: %v", err)
		}
		if err := qp.Modify(&toInit, qpstate.MaskState); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Modify after Close: %v", err)
		}
	})
}

func TestContextEndsModify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, qp, _, release, closeAll := stalledRoom(t)
		why := errors.New("the job was stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		ended := func(err error) {
			t.Helper()
			var e *Error
			if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || !errors.As(err, &e) || e.Op != "ibv_modify_qp" {
				t.Errorf("a context that ends: %v", err)
			}
		}
		began, attr := time.Now(), toInit
		ended(qp.ModifyContext(ctx, &attr, qpstate.MaskState|qpstate.MaskPort))
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		attr.State = qpstate.RTS // the call in flight has its own copy
		late, cancelLate := context.WithTimeout(t.Context(), time.Second)
		defer cancelLate()
		if err := qp.ModifyContext(late, &attr, qpstate.MaskState); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("behind one that goes on: %v", err)
		}
		ended(qp.ModifyContext(ctx, &attr, qpstate.MaskState)) // must not start a call
		if s := qp.State(); s != qpstate.Reset {
			t.Errorf("state %v while the first goes on", s)
		}
		if err := qp.Close(); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "1 ibv_modify_qp") {
			t.Errorf("Close: %v", err)
		}
		release()
		synctest.Wait()
		if s := qp.State(); s != qpstate.Init {
			t.Errorf("state %v after it", s)
		}
		closeAll()
	})
}

func TestContextEndsCreateAH(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pd, _, p, release, closeAll := stalledRoom(t)
		live := p.open()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 { // the second must not start a call
			if ah, err := pd.CreateAHContext(ctx, AHAttr{}); ah != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, %v", ah, err)
			}
		}
		if err := pd.Close(); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "1 AH") {
			t.Errorf("Close beside it: %v", err)
		}
		release()
		synctest.Wait()
		if now := p.open(); now != live {
			t.Errorf("%d objects, want %d: the late handle stays open", now, live)
		}
		ah, err := pd.CreateAHContext(t.Context(), AHAttr{})
		if err != nil {
			t.Fatal(err)
		}
		closeRoom(t, ah)
		closeAll()
	})
}
