package softroce

import (
	"testing"

	"github.com/rawverbs/rawverbs/internal/sync/eventqueue"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestEventsOfAProgramThatDoesNotSubscribe makes more events than the device keeps. A program that subscribes then gets
// the latest.
func TestEventsOfAProgramThatDoesNotSubscribe(t *testing.T) {
	dev, err := verbs.Open("soft0")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pd, err := dev.AllocPD()
	must(err)
	defer pd.Close()
	cq, err := dev.CreateCQ(verbs.CQInit{Depth: 1})
	must(err)
	defer cq.Close()
	srq, err := pd.CreateSRQ(verbs.SRQInit{MaxWR: 1, MaxSGE: 1})
	must(err)
	defer srq.Close()
	lastWQEReached := func() (qpn uint32) {
		qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq, Cap: verbs.QPCap{MaxSendWR: 1}})
		must(err)
		must(qp.Modify(&verbs.QPAttr{State: qpstate.Init, PortNum: 1}, qpstate.MaskState|qpstate.MaskPKeyIndex|qpstate.MaskPort|qpstate.MaskAccessFlags))
		must(qp.Modify(&verbs.QPAttr{State: qpstate.Error}, qpstate.MaskState))
		must(qp.Close())
		return qp.QPN()
	}
	var qpns []uint32
	for range 3*eventqueue.Most + 1 {
		qpns = append(qpns, lastWQEReached())
	}
	counters, err := dev.QueryCounters(1)
	must(err)
	if got := counters["events_lost"]; got != 2*eventqueue.Most+1 {
		t.Errorf("%d events are lost, want %d", got, 2*eventqueue.Most+1)
	}
	got := make(chan uint32, len(qpns)+1)
	defer dev.Subscribe(func(e verbs.AsyncEvent) { got <- e.QPN })()
	for i := 2*eventqueue.Most + 1; i < len(qpns); i++ {
		if qpn := testkit.Receive(t, got, "event"); qpn != qpns[i] {
			t.Fatalf("event %d is of queue pair %#x, want %#x", i, qpn, qpns[i])
		}
	}
	if want, qpn := lastWQEReached(), testkit.Receive(t, got, "event"); qpn != want {
		t.Errorf("after the subscription came an event of %#x, want %#x", qpn, want)
	}
}
