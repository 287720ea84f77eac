package verbs

import (
	stderrors "errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"
)

func TestSRQ(t *testing.T) {
	d, p := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	srq := must[*SRQ](t)(pd.CreateSRQ(SRQInit{MaxWR: 4, MaxSGE: 2}))
	other := must[*SRQ](t)(pd.CreateSRQ(SRQInit{MaxWR: 4, MaxSGE: 2}))
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	qp := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq, SRQ: srq}))
	if qp.SRQ() != srq {
		t.Error("the queue pair has another SRQ")
	}
	if err := srq.Close(); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "SRQ has living children: 1 QP") {
		t.Errorf("closing it with a queue pair: %v", err)
	}
	if err := srq.Modify(SRQAttr{MaxWR: 9, MaxSGE: 7, Limit: 3}, SRQMaxWR|SRQLimit); err != nil {
		t.Error(err)
	}
	if attr, err := srq.Query(); err != nil || attr != (SRQAttr{MaxWR: 9, MaxSGE: 2, Limit: 3}) {
		t.Errorf("Query: %+v, %v", attr, err)
	}
	if n, err := srq.Number(); err != nil || n == 0 {
		t.Errorf("Number: %d, %v", n, err)
	}
	if err := srq.PostRecv(make([]RecvWR, 9)); err != nil {
		t.Error(err)
	}
	var pe *PostError
	if err := srq.PostRecv(make([]RecvWR, 1)); !errors.As(err, &pe) || pe.Index != 0 || pe.Op != "ibv_post_srq_recv" {
		t.Errorf("full: %v", err)
	}
	event := ProviderEvent(EventSRQLimitReached, srq.p)
	if !srq.Is(event) || other.Is(event) || event.Fatal() || event.String() != "IBV_EVENT_SRQ_LIMIT_REACHED on an SRQ" {
		t.Errorf("%v", event)
	}

	p.refuse = syscall.EOPNOTSUPP
	if err := srq.Modify(SRQAttr{MaxWR: 9}, SRQMaxWR); !errors.Is(err, stderrors.ErrUnsupported) ||
		!strings.Contains(err.Error(), "ibv_modify_srq on paper0 (IBV_SRQ_MAX_WR: {MaxWR:9 MaxSGE:0 Limit:0}): EOPNOTSUPP") {
		t.Errorf("a device that cannot resize: %v", err)
	}
	p.refuse = syscall.EOPNOTSUPP
	if _, err := srq.Number(); !errors.Is(err, stderrors.ErrUnsupported) {
		t.Errorf("a device without numbers: %v", err)
	}
	p.refuse = syscall.EINVAL
	if _, err := pd.CreateSRQ(SRQInit{MaxWR: 1 << 30, MaxSGE: 1}); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "{MaxWR:1073741824 MaxSGE:1}") {
		t.Errorf("too large: %v", err)
	}

	closeRoom(t, qp, srq, srq, other, cq, pd, d)
	if n := p.open(); n != 0 {
		t.Errorf("%d objects are left", n)
	}
	if err := srq.Modify(SRQAttr{}, SRQLimit); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Modify of a closed one: %v", err)
	}
	if _, err := srq.Query(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Query of a closed one: %v", err)
	}
	if _, err := srq.Number(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Number of a closed one: %v", err)
	}
}

func TestSRQOfAnotherDeviceIsRefused(t *testing.T) {
	d, _ := newPaperDevice()
	other, _ := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	srq := must[*SRQ](t)(must[*PD](t)(other.AllocPD()).CreateSRQ(SRQInit{MaxWR: 1}))
	_, err := pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq, SRQ: srq})
	if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "objects of one opened device") {
		t.Errorf("got %v", err)
	}
}
